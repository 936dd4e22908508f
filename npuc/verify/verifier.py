"""`verify_program`: a binary to a verdict; docs/verify.md says what is proven and what is assumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from isa.container import IoEntry
from isa.descriptors import Memory
from isa.instructions import Queue
from npuc.verify.access import Access, accesses
from npuc.verify.binary import Binary, read_binary
from npuc.verify.bounds import capacities, check_instruction, declared_peak, too_large
from npuc.verify.byteset import common
from npuc.verify.order import Ordering, establish, may_wrap
from npuc.verify.race import RaceSearch
from npuc.verify.verdict import Finding, Names, Verdict
from npuc.verify.written import WrittenBytes, io_bytes


def verify_program(
    data: bytes, debug_map: Mapping[str, Any] | None = None, *, sram_bytes: int | None = None
) -> Verdict:
    """Prove a program free of races, deadlocks and stray accesses for every legal timing.

    `sram_bytes` replaces the sram of the board; `debug_map` (of the `.npu.map`) names layers and sources in messages.
    IsaError for bytes that are no program and for a program of an unknown target.
    """
    binary = read_binary(data)
    names = Names([item.spec.mnemonic for item in binary.code], debug_map)
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


def _structure(binary: Binary) -> Iterator[Finding]:
    """What the verifier cannot follow, and a program that does not end where it ends."""
    if binary.container.arm_calls or binary.container.state:
        yield Finding("unsupported", "program has Arm calls or state, which are not verified yet")
    ends = [item.index for item in binary.code if item.spec.mnemonic == "end"]
    if ends != [len(binary.code) - 1]:
        yield Finding("unsupported", f"program has {len(ends)} end, allowed: one, at its end", tuple(ends))


def _places(
    binary: Binary, operands: list[tuple[Access, ...]], names: Names, sram_bytes: int | None
) -> Iterator[Finding]:
    sizes = capacities(binary, sram_bytes)
    for item in binary.code:
        yield from check_instruction(item, operands[item.index], sizes, binary.target, names)
        if too_large(operands[item.index]):
            yield Finding("range", f"{names.instruction(item.index)} visits more bytes than a memory has")
    for entry in binary.container.io:
        memory = Memory(entry.address >> 30)
        if (entry.address & ((1 << 30) - 1)) + entry.n_bytes > sizes[memory]:
            yield Finding("range", f"{entry.direction}put {entry.name} ends outside {memory.name.lower()}")
    yield from _shared_inputs([entry for entry in binary.container.io if entry.direction == "in"])


def _shared_inputs(entries: list[IoEntry]) -> Iterator[Finding]:
    """Inputs that overwrite each other; outputs may be views of one tensor."""
    for i, first in enumerate(entries):
        for second in entries[:i]:
            if common(io_bytes(first), io_bytes(second)):
                yield Finding("overlap", f"inputs {first.name} and {second.name} share bytes")


def _progress(binary: Binary, ordering: Ordering, names: Names) -> Iterator[Finding]:
    for index in ordering.stuck:
        waits = " ".join(f"{Queue(queue).name.lower()}>={count}" for queue, count in ordering.waits[index])
        yield Finding("deadlock", f"{names.instruction(index)} never starts: it waits for {waits}", (index,))
    for index, queue in may_wrap(binary.code, binary.target.costs.queue_depth):
        yield Finding(
            "deadlock", f"{names.instruction(index)}: {Queue(queue).name.lower()} may wrap meanwhile", (index,)
        )


def _contents(
    binary: Binary, operands: list[tuple[Access, ...]], ordering: Ordering, names: Names
) -> Iterator[Finding]:
    """Reads of unwritten bytes, in one legal order; free of races, every legal order reads the same."""
    entries = binary.container.io
    parts = [part for row in operands for access in row for part in access.parts]
    written = WrittenBytes(
        [entry for entry in entries if entry.direction == "in"], parts + [io_bytes(entry) for entry in entries]
    )
    for index in ordering.order:
        yield from written.step(index, operands[index], names)
    for entry in entries:
        if entry.direction == "out":
            yield from written.output(entry)


def _proofs(
    binary: Binary, operands: list[tuple[Access, ...]], ordering: Ordering, search: RaceSearch
) -> dict[str, int]:
    return {
        "instructions": len(binary.code),
        "accesses_in_range": sum(len(access.parts) for row in operands for access in row),
        "conditions_met": sum(map(len, ordering.waits)),
        "unordered_pairs_disjoint": search.n_unordered_pairs,
        "outputs_written": sum(entry.direction == "out" for entry in binary.container.io),
    }
