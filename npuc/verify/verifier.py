"""`verify_program`: a binary to a verdict; docs/verify.md says what is proven and what is assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from isa.descriptors import Memory
from isa.instructions import Queue
from npuc.verify.access import KNOWN, Access, accesses
from npuc.verify.binary import Binary, read_binary
from npuc.verify.bounds import capacities, check_instruction, declared_peak, too_large
from npuc.verify.byteset import common
from npuc.verify.order import Ordering, establish, may_wrap
from npuc.verify.race import RaceSearch
from npuc.verify.verdict import Finding, Names, Verdict
from npuc.verify.written import Resident, WrittenBytes, resident


def verify_program(
    data: bytes, debug_map: Mapping[str, Any] | None = None, *, sram_bytes: int | None = None
) -> Verdict:
    """Prove a program free of races, deadlocks and stray accesses for every legal timing.

    `sram_bytes` replaces the sram of the board; `debug_map` (of the `.npu.map`) names layers and sources in messages.
    IsaError for bytes that are no program and for a program of an unknown target.
    """
    binary = read_binary(data)
    names = _names(binary, debug_map)
    operands = [accesses(item) for item in binary.code]
    findings = [*binary.findings, *_structure(binary), *declared_peak(binary, sram_bytes)]
    findings += _places(binary, operands, names, sram_bytes)
    ordering = establish(binary.code, binary.target.costs.queue_depth)
    findings += _progress(binary, ordering, names)
    if findings:
        # What follows needs every access in range and an order; the first cause is worth more than its consequences.
        return Verdict(False, (), tuple(findings), {})
    findings += _contents(binary, operands, ordering, names)
    search = RaceSearch(binary.code, operands, ordering.clocks, ordering.order, names)
    races = tuple(search.races())
    proofs = {} if races or findings else _proofs(binary, operands, ordering, search)
    return Verdict(not races and not findings, races, tuple(findings), proofs)


def _names(binary: Binary, debug_map: Mapping[str, Any] | None) -> Names:
    mnemonics = [item.spec.mnemonic for item in binary.instructions]
    return Names(mnemonics, debug_map, [item.values["kernel"] for item in binary.code[len(mnemonics) :]])


def _structure(binary: Binary) -> Iterator[Finding]:
    """What the verifier cannot follow, and a program that does not end where it ends."""
    for item in binary.code:
        if item.queue in (Queue.MAC, Queue.VEC) and item.layer and item.spec.mnemonic not in KNOWN:
            yield Finding("unsupported", f"{item.spec.mnemonic} is not verified yet", (item.index,))
    ends = [item.index for item in binary.code if item.spec.mnemonic == "end"]
    if ends != [len(binary.instructions) - 1]:
        yield Finding("unsupported", f"program has {len(ends)} end, allowed: one, at its end", tuple(ends))


def _places(
    binary: Binary, operands: list[tuple[Access, ...]], names: Names, sram_bytes: int | None
) -> Iterator[Finding]:
    sizes = capacities(binary, sram_bytes)
    for decoded in binary.code:
        yield from check_instruction(decoded, operands[decoded.index], sizes, binary.target, names)
        if too_large(operands[decoded.index]):
            yield Finding("range", f"{names.instruction(decoded.index)} visits more bytes than a memory has")
    residents = resident(binary.container)
    for item in residents:
        memory = Memory(item.bytes.start >> 30)
        if item.bytes.stop - (memory << 30) > sizes[memory]:
            yield Finding("range", f"{item.name} ends outside {memory.name.lower()}")
    yield from _shared([item for item in residents if not item.is_output])


def _shared(residents: list[Resident]) -> Iterator[Finding]:
    """Inputs and states that overwrite each other; outputs may be views of one tensor."""
    for i, first in enumerate(residents):
        for second in residents[:i]:
            if common(first.bytes, second.bytes):
                yield Finding("overlap", f"{first.name} and {second.name} share bytes")


def _progress(binary: Binary, ordering: Ordering, names: Names) -> Iterator[Finding]:
    for index in ordering.stuck:
        waits = " ".join(f"{Queue(queue).name.lower()}>={count}" for queue, count in ordering.waits[index])
        yield Finding("deadlock", f"{names.instruction(index)} never starts: it waits for {waits}", (index,))
    for index, queue in may_wrap(binary.code, ordering, binary.target.costs.queue_depth):
        yield Finding(
            "deadlock", f"{names.instruction(index)}: {Queue(queue).name.lower()} may wrap meanwhile", (index,)
        )


def _contents(
    binary: Binary, operands: list[tuple[Access, ...]], ordering: Ordering, names: Names
) -> Iterator[Finding]:
    """Reads of unwritten bytes, in one legal order; free of races, every legal order reads the same."""
    residents = resident(binary.container)
    written = WrittenBytes(residents, operands)
    for index in ordering.order:
        yield from written.step(index, operands[index], names)
    for item in residents:
        if item.is_output:
            yield from written.output(item)


def _proofs(
    binary: Binary, operands: list[tuple[Access, ...]], ordering: Ordering, search: RaceSearch
) -> dict[str, int]:
    return {
        "instructions": len(binary.instructions),
        "arm_calls": len(binary.code) - len(binary.instructions),
        "accesses_in_range": sum(len(access.parts) for row in operands for access in row),
        "conditions_met": sum(map(len, ordering.waits)),
        "unordered_pairs_disjoint": search.n_unordered_pairs,
        "outputs_written": sum(entry.direction == "out" for entry in binary.container.io),
    }
