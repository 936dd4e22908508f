"""What the allocator answers: addresses with a proven bound, or why the buffers do not fit."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from npuc.allocation.live import live_at_peak
from npuc.allocation.problem import Problem


@dataclass(frozen=True)
class Placement:
    """Byte offsets from the arena's start, by buffer name.

    peak_bytes: the arena's size; sizes count rounded up to the alignment that all buffers have in common.
    bound_bytes: proven lower bound of the peak of any placement.
    """

    offsets: dict[str, int]
    peak_bytes: int
    bound_bytes: int

    @property
    def status(self) -> Literal["optimal", "feasible"]:
        """Optimal exactly when the peak equals its proven bound."""
        return "optimal" if self.peak_bytes == self.bound_bytes else "feasible"

    @property
    def gap_bytes(self) -> int:
        return self.peak_bytes - self.bound_bytes


class CapacityExceeded(ValueError):
    """No placement within the capacity was found.

    needed_bytes: peak of the best placement found; bound_bytes: what any placement needs at least, so that the
    buffers provably do not fit when it exceeds capacity_bytes; live: (name, size in bytes) at the busiest moment.
    """

    def __init__(self, capacity_bytes: int, best: Placement, problem: Problem) -> None:
        super().__init__()
        self.capacity_bytes = capacity_bytes
        self.needed_bytes = best.peak_bytes
        self.bound_bytes = best.bound_bytes
        self._problem = problem

    @cached_property
    def live(self) -> tuple[tuple[str, int], ...]:
        """Worked out when it is asked for: a search that tries another placement has no use for it."""
        return live_at_peak(self._problem)

    def __str__(self) -> str:
        shown = ", ".join(f"{name} ({size_bytes} bytes)" for name, size_bytes in self.live[:8])
        more = f" and {len(self.live) - 8} more" if len(self.live) > 8 else ""
        return (
            f"buffers need {self.needed_bytes} bytes, capacity {self.capacity_bytes} bytes; "
            f"live at the peak: {shown}{more}"
        )
