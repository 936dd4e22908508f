"""`--dump-after`: the graph as text after the passes that the user names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from npuc.errors import UsageError

if TYPE_CHECKING:
    from npuc.graph.graph import Graph

EVERY = "all"


@dataclass
class PassDump:
    """Writes FOLDER/<number>-<pass>.txt when it is called after the pass `wanted`, or after any for `all`."""

    wanted: str | None
    folder: Path
    seen: list[str] = field(default_factory=list)

    def __call__(self, name: str, graph: Graph) -> None:
        """Called after every pass."""
        self.seen.append(name)
        if self.wanted not in (name, EVERY):
            return
        from isa.container import save

        self.folder.mkdir(parents=True, exist_ok=True)
        save(self.folder / f"{len(self.seen):02d}-{name}.txt", str(graph).encode())

    def finish(self) -> None:
        """UsageError when no pass has the name that was asked for."""
        if self.wanted not in (None, EVERY, *self.seen):
            names = ", ".join([*dict.fromkeys(self.seen), EVERY])
            raise UsageError(f"no pass is called {self.wanted!r}", hint=f"choose one of {names}")
