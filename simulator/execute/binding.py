"""What a binder gets: one instruction, its captured descriptor, and the parts of the machine that it may use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulator.errors import Site
from simulator.execute.decoded import DecodedWeights
from simulator.memory import Array, Memories, Pattern
from simulator.operand import Access, Operand, Region, operand

MAX_ELEMENTS = 1 << 26
"""Elements that one instruction may touch; zero strides would otherwise let a small program ask for any amount."""

DECODED_BYTES = 1 << 26
"""Decoded weights that a machine keeps."""

Step = Callable[[], None]


class Workspace:
    """Scratch arrays that steps reuse, one per role, so that no inference pays for fresh pages."""

    def __init__(self) -> None:
        self._buffers: dict[str, npt.NDArray[np.uint8]] = {}
        self.decoded = DecodedWeights(DECODED_BYTES)

    def take(self, role: str, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """An array with undefined contents, valid until the role is taken again."""
        kind = np.dtype(dtype)
        n_bytes = math.prod(shape) * kind.itemsize
        buffer = self._buffers.get(role)
        if buffer is None or len(buffer) < n_bytes:
            buffer = self._buffers[role] = np.empty(n_bytes, np.uint8)
        return np.ndarray(tuple(shape), kind, buffer)


@dataclass(frozen=True)
class Binding:
    """One instruction about to be bound."""

    memories: Memories
    workspace: Workspace
    site: Site
    values: Mapping[str, int]
    """Fields of the instruction."""
    descriptor: Mapping[str, int]
    """Fields of the captured descriptor; empty when the instruction captures none."""
    cout_lanes: int
    strict: bool

    @property
    def region(self) -> Region:
        """The output region."""
        v = self.values
        self.check_elements(v["height"], v["width"], v["channels"])
        return Region(v["n"], v["y"], v["x"], v["c"], v["height"], v["width"], v["channels"])

    def operand(self, prefix: str) -> Operand:
        """The access record `ofm`, `ifm` or `ifm2`."""
        return operand(self.descriptor, prefix)

    def reads(self, prefix: str, region: Region) -> Access:
        """Bind a read of `region`."""
        return Access(self.memories, self.site, self.operand(prefix), region)

    def writes(self, region: Region) -> Access:
        """Bind the write of the output; binders call it after all their reads."""
        return Access(self.memories, self.site, self.operand("ofm"), region, writes=True)

    def table(self) -> Array:
        """The 256 entries at `table`, of the output's type."""
        dtype = self.operand("ofm").dtype
        if dtype.itemsize != 1:
            raise self.site.fault(f"looks up a table with {dtype} output, allowed: int8, uint8")
        return self.memories.read_view(self.site, Pattern(self.descriptor["table"], (256,), (1,), dtype))

    def check_elements(self, *shape: int) -> None:
        """Fault when an array of that shape has more elements than an instruction may touch."""
        if math.prod(shape) > MAX_ELEMENTS:
            raise self.site.fault(f"touches {' x '.join(map(str, shape))} elements, limit {MAX_ELEMENTS}")

    def require_8_bit(self, *prefixes: str) -> None:
        """Fault unless these operands are int8 or uint8, with a zero point of their own range."""
        for prefix in prefixes:
            tensor = self.operand(prefix)
            if tensor.dtype.itemsize != 1:
                raise self.site.fault(f"{prefix} has type {tensor.dtype}, allowed: int8, uint8")
            info = np.iinfo(tensor.dtype)
            if not info.min <= tensor.zero_point <= info.max:
                raise self.site.fault(f"{prefix} has zero point {tensor.zero_point}, allowed: {info.min} to {info.max}")

    def require_integers(self, *prefixes: str) -> None:
        """Fault unless these operands are int8, uint8 or int16, with a zero point of their own range."""
        for prefix in prefixes:
            if self.operand(prefix).dtype != np.int16:
                self.require_8_bit(prefix)
            elif not -32768 <= self.operand(prefix).zero_point <= 32767:
                raise self.site.fault(f"{prefix} has zero point {self.operand(prefix).zero_point}, allowed: int16")

    def require_int16(self, *prefixes: str) -> None:
        """Fault unless these operands are int16."""
        for prefix in prefixes:
            if self.operand(prefix).dtype != np.int16:
                raise self.site.fault(f"{prefix} has type {self.operand(prefix).dtype}, allowed: int16")

    def require_int8(self, *prefixes: str) -> None:
        """Fault unless these operands are int8."""
        self.require_8_bit(*prefixes)
        for prefix in prefixes:
            if self.operand(prefix).dtype != np.int8:
                raise self.site.fault(f"{prefix} has type uint8, allowed: int8")


Binder = Callable[[Binding], Step]
