"""Arm calls as a fifth queue: races, deadlocks, ranges, wrapping counters, and every condition dropped or weakened."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from isa.arm_calls import ArmCall, ArmRange, decode_arm_calls, encode_arm_calls
from isa.codec import Instruction, decode_all, encode
from isa.container import Container, read_container, write_container
from isa.instructions import NO_CONDITION, Queue
from npuc.verify import Verdict, verify_program
from tests.simulator.assemble import SRAM_BYTES, io_entry, sram
from tests.verify.brute_force import calls, captured, races, sram_flags, steps
from tests.verify.test_races import Program, layer, raced, wait

X, Y = 0x3000, 0x2000
IO = (io_entry("x", "in", "int8", (256,), X), io_entry("y", "out", "int8", (256,), Y))


def call(read: int, write: int, *conditions: tuple[Queue, int]) -> ArmCall:
    """256 bytes read and written."""
    ranges = (ArmRange(sram(read), 256, False), ArmRange(sram(write), 256, True))
    return ArmCall(4, 1, 100, b"", conditions, ranges)


def binary(program: Program, *arm: ArmCall) -> bytes:
    return program.container(IO, arm_calls=encode_arm_calls(arm))


def verdict(program: Program, *arm: ArmCall, sram_bytes: int = SRAM_BYTES) -> Verdict:
    return verify_program(binary(program, *arm), sram_bytes=sram_bytes)


def copies(*rows: tuple[int, int, int]) -> Program:
    """Copies in dma-out: source, destination, calls that it waits for."""
    program = Program()
    for source, target, arm in rows:
        program.store(source, target, arm=arm)
    return program


def test_call_between_a_load_and_a_copy_is_proven() -> None:
    program = Program()
    program.load(0)
    program.store(0x1000, Y, arm=1)
    found = verdict(program, call(0, 0x1000, (Queue.DMA_IN, 1)))
    assert found.ok, found
    assert found.proofs["arm_calls"] == 1


def test_call_that_does_not_wait_races_with_the_instruction_behind_which_it_belongs() -> None:
    found = verdict(copies((X, Y, 0)), call(X, X))
    assert raced(found) == [(2, 0)]
    assert found.races[0].message == (
        "instruction 0 dma.store reads sram 0x3000..0x30ff, which arm call 0 of kernel 4 writes, "
        "and no wait orders them"
    )
    assert verdict(copies((X, Y, 0)), call(X, X, (Queue.DMA_OUT, 1))).ok


def test_instruction_that_does_not_wait_races_with_the_call() -> None:
    assert raced(verdict(copies((X, Y, 0), (X, Y, 0)), call(X, X, (Queue.DMA_OUT, 1)))) == [(3, 1)]
    assert verdict(copies((X, Y, 0), (X, Y, 1)), call(X, X, (Queue.DMA_OUT, 1))).ok


def test_calls_run_one_by_one() -> None:
    chain = call(X, 0), call(0, 0x100), call(0x100, 0)
    assert verdict(copies((0, Y, 3)), *chain).ok
    assert raced(verdict(copies((0, Y, 2)), *chain)) == [(4, 0)]


def test_order_passes_through_calls() -> None:
    """The copy waits for a call that waits for the load."""
    program = Program()
    program.load(0)
    program.store(0, Y, arm=1)
    assert verdict(program, ArmCall(0, 0, 0, b"", ((Queue.DMA_IN, 1),), ())).ok


def test_kernel_may_write_where_it_reads() -> None:
    assert verdict(copies((X, Y, 1)), call(X, X)).ok


def test_layer_names_of_calls_come_from_the_debug_map() -> None:
    rows = [{"index": 0, "layer": "softmax_3", "sources": ["/head/Softmax"]}]
    data = binary(copies((0, Y, 1)), call(0, 0))
    found = verify_program(data, {"instructions": [], "calls": rows}, sram_bytes=SRAM_BYTES)
    assert found.findings[0].message == (
        "arm call 0 of kernel 4 (layer softmax_3, from /head/Softmax) reads sram 0x0..0xff, which nothing has written"
    )


def test_output_that_only_a_call_writes_is_written() -> None:
    assert verdict(Program(), call(X, Y)).ok
    assert [f.kind for f in verdict(Program(), call(X, Y + 1)).findings] == ["output"]


def test_ranges_outside_sram_are_found() -> None:
    found = verdict(Program(), call(X, Y), call(X, 0x3F01), sram_bytes=0x4000)
    assert [f.kind for f in found.findings] == ["range"]
    assert found.findings[0].message == ("arm call 1 of kernel 4: output spans sram 0x3f01..0x4000, limit 0x4000")


def test_call_and_instruction_that_wait_for_each_other_never_start() -> None:
    found = verdict(copies((X, Y, 1)), call(X, 0, (Queue.DMA_OUT, 1)))
    assert [f.message for f in found.findings] == [
        "instruction 0 dma.store never starts: it waits for arm>=1",
        "arm call 0 of kernel 4 never starts: it waits for dma_out>=1",
    ]


def test_instruction_that_waits_for_one_call_more_than_there_is_never_starts() -> None:
    found = verdict(copies((X, Y, 2)), call(X, 0))
    assert [f.kind for f in found.findings] == ["deadlock"]


def test_call_may_wait_for_what_stands_behind_its_reader() -> None:
    """The copy stands before the load that the call waits for, but in another queue."""
    program = Program()
    program.store(0x1000, Y, arm=1)
    program.load(0)
    assert verdict(program, call(0, 0x1000, (Queue.DMA_IN, 1))).ok


def test_full_queue_before_what_a_call_waits_for_is_a_deadlock() -> None:
    program = copies(*[(0, Y, 1)] * 17)
    program.load(0)
    found = verdict(program, call(0, 0, (Queue.DMA_IN, 1)))
    assert {f.kind for f in found.findings} == {"deadlock"}


def test_counter_that_may_wrap_while_a_call_waits_is_found() -> None:
    """Nothing holds the vector queue back while the second call is busy or waits."""
    program = Program()
    program.rows += [("wait.vec", {}, None)] * 33000
    program.store(X, Y, arm=2)
    late = ArmCall(0, 0, 0, b"", ((Queue.VEC, 10),), ())
    found = verdict(program, ArmCall(0, 0, 0, b"", (), ()), late)
    assert [f.message for f in found.findings] == ["arm call 1 of kernel 0: vec may wrap meanwhile"]


def test_counts_above_half_the_range_of_the_counters_are_understood() -> None:
    program = Program()
    program.rows += [("wait.vec", {}, None)] * 20000 + [("wait.vec", wait(arm=1), None)]
    program.rows += [("wait.vec", {}, None)] * 20000
    program.store(X, Y, arm=2)
    first = ArmCall(0, 0, 0, b"", ((Queue.VEC, 20000),), ())
    assert verdict(program, first, ArmCall(0, 0, 0, b"", ((Queue.VEC, 40001),), ())).ok


def _mutants(data: bytes) -> Iterator[bytes]:
    """Programs in which an instruction or a call lacks one condition, or waits for one less."""
    container = read_container(data)
    code = [instruction for _, instruction in decode_all(container.instructions)]
    for i, instruction in enumerate(code):
        for name in [
            n.removesuffix("_queue") for n, v in instruction.values.items() if n.endswith("_queue") and v != 7
        ]:
            count = instruction.values[f"{name}_count"]
            for change in ((NO_CONDITION, 0), (instruction.values[f"{name}_queue"], count - 1)):
                values = {**instruction.values, f"{name}_queue": change[0], f"{name}_count": change[1]}
                other = [*code[:i], Instruction(instruction.mnemonic, values), *code[i + 1 :]]
                yield write_container(replace(container, instructions=b"".join(map(encode, other))))
    arm = decode_arm_calls(container.arm_calls)
    for i, item in enumerate(arm):
        for j, (queue, count) in enumerate(item.conditions):
            rest = item.conditions[:j], item.conditions[j + 1 :]
            for less in (rest[0] + rest[1], (*rest[0], (queue, count - 1), *rest[1])):
                yield _with_calls(container, [*arm[:i], replace(item, conditions=less), *arm[i + 1 :]])


def _with_calls(container: Container, arm: Sequence[ArmCall]) -> bytes:
    return write_container(replace(container, arm_calls=encode_arm_calls(arm)))


def mixed() -> bytes:
    """Loads, lookups, copies and three calls that pass data to and fro; some conditions follow from others."""
    program = Program()
    program.load(0x8000)
    program.load(0)
    program.table(layer(0x400, 0x500), dma_in=1, arm=1)
    program.table(layer(X, 0x700), dma_in=1)
    program.load(0x400, vec=1)
    program.store(0x600, 0xA00, arm=2)
    program.store(0xB00, Y, arm=3)
    return binary(
        program,
        call(0, 0x400, (Queue.DMA_IN, 2)),
        call(0x500, 0x600, (Queue.VEC, 1)),
        call(0xA00, 0xB00, (Queue.DMA_OUT, 1), (Queue.VEC, 2)),
    )


def test_every_dropped_or_weakened_condition_is_judged_as_brute_force_judges_it() -> None:
    data = mixed()
    flags = sram_flags(data)
    assert verify_program(data).ok
    n_mutants = n_caught = 0
    for mutant in _mutants(data):
        expected = races(steps([instruction for instruction, _ in captured(mutant)]) + calls(mutant), flags)
        found = {(min(r.instructions), max(r.instructions)) for r in verify_program(mutant).races}
        assert found == expected
        n_mutants, n_caught = n_mutants + 1, n_caught + bool(expected)
    assert (n_mutants, n_caught) == (20, 14)
