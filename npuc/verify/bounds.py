"""Where accesses may be: inside their memory, in the memories that the instruction reaches, aligned, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isa.descriptors import Memory
from isa.instructions import Queue
from isa.target import Limits, Target
from npuc.verify.access import WINDOWED, Access
from npuc.verify.binary import Binary, Decoded
from npuc.verify.byteset import MAX_BYTES
from npuc.verify.verdict import Finding, Names

OFF_CHIP, ON_CHIP = {Memory.FLASH, Memory.DRAM}, {Memory.SRAM}
WRITABLE = {Memory.SRAM, Memory.DRAM}
ANYWHERE = set(Memory)

COPY_MEMORIES = {
    ("dma.load", "source"): OFF_CHIP,
    ("dma.load", "destination"): ON_CHIP,
    ("dma.load4", "source"): OFF_CHIP,
    ("dma.load4", "destination"): ON_CHIP,
    ("dma.store", "source"): ON_CHIP,
    ("dma.store4", "source"): ON_CHIP,
}
"""Memories that a copy may address, where the manual does not leave it open."""


def capacities(binary: Binary, sram_bytes: int | None) -> dict[Memory, int]:
    """Bytes of each memory that the program may use; sram: the peak it declares, when it does."""
    board, declared = binary.target.board, binary.container.metadata.get("sram_peak_bytes")
    sram = board.sram_bytes if sram_bytes is None else sram_bytes
    peak = declared if isinstance(declared, int) else sram
    dram = board.dram_bytes if binary.target.architecture.has_dram else 0
    return {Memory.FLASH: binary.n_bytes, Memory.SRAM: min(sram, peak), Memory.DRAM: dram}


def declared_peak(binary: Binary, sram_bytes: int | None) -> Iterator[Finding]:
    """A finding when the program declares more sram than there is."""
    peak = binary.container.metadata.get("sram_peak_bytes", 0)
    limit = binary.target.board.sram_bytes if sram_bytes is None else sram_bytes
    if not isinstance(peak, int) or peak > limit:
        yield Finding("range", f"program declares a peak of {peak} bytes of sram, limit {limit}")


def check_instruction(
    decoded: Decoded, operands: tuple[Access, ...], sizes: Mapping[Memory, int], target: Target, names: Names
) -> Iterator[Finding]:
    """Everything that one instruction alone can violate."""
    for access in operands:
        for kind, text in _access_problems(decoded, access, sizes):
            yield _finding(kind, decoded, names, text)
    for text in _limit_problems(decoded, target.limits):
        yield _finding("limit", decoded, names, text)


def _finding(kind: str, decoded: Decoded, names: Names, text: str) -> Finding:
    return Finding(kind, f"{names.instruction(decoded.index)}: {text}", (decoded.index,))


def _access_problems(decoded: Decoded, access: Access, sizes: Mapping[Memory, int]) -> Iterator[tuple[str, str]]:
    if access.problem:
        yield "overlap" if access.writes else "limit", f"{access.role} {access.problem}"
    allowed = COPY_MEMORIES.get((decoded.spec.mnemonic, access.role), WRITABLE if access.writes else ANYWHERE)
    for part in access.parts:
        memory, first, last = part.start >> 30, part.start & ((1 << 30) - 1), part.stop - 1 & ((1 << 30) - 1)
        if memory not in allowed or part.stop - 1 >> 30 != memory:
            where = ", ".join(sorted(kind.name.lower() for kind in allowed))
            yield "range", f"{access.role} spans {part.start:#x}..{part.stop - 1:#x}, allowed: one of {where}"
        elif last >= sizes[Memory(memory)]:
            name = Memory(memory).name.lower()
            yield "range", f"{access.role} spans {name} {first:#x}..{last:#x}, limit {sizes[Memory(memory)]:#x}"
        if part.start % access.alignment:
            yield "alignment", f"{access.role} starts at {part.start:#x}, allowed: multiples of {access.alignment}"


def _limit_problems(decoded: Decoded, limits: Limits) -> Iterator[str]:
    layer = decoded.layer
    if decoded.queue not in (Queue.MAC, Queue.VEC) or not layer:
        return
    if decoded.values["n"] >= limits.batch:
        yield f"batch entry {decoded.values['n']}, limit {limits.batch - 1}"
    for name in ("y", "x", "c"):
        end = decoded.values[name] + decoded.values[{"y": "height", "x": "width", "c": "channels"}[name]]
        if end > limits.dimension:
            yield f"output reaches {name} = {end - 1}, limit {limits.dimension - 1}"
    if decoded.spec.mnemonic in WINDOWED:
        yield from (
            f"{name} is {layer[name]}, limit {limit}"
            for family, limit in (("kernel", limits.kernel), ("stride", limits.stride), ("dilation", limits.dilation))
            for name in (f"{family}_h", f"{family}_w")
            if layer[name] > limit
        )
        yield from (f"{n} is {layer[n]}, limit {limits.pad}" for n in ("pad_top", "pad_left") if layer[n] > limits.pad)


def too_large(operands: tuple[Access, ...]) -> bool:
    """Whether an operand visits more bytes than a memory could hold."""
    for access in operands:
        for part in access.parts:
            n_bytes = 1
            for length in part.shape:
                n_bytes *= length
            if n_bytes > MAX_BYTES:
                return True
    return False
