"""Arm calls in the simulator: data in the order of conditions, time, faults, and what strict mode finds."""

from dataclasses import replace

import numpy as np
import pytest

from isa.arm_calls import ArmCall, ArmRange
from isa.errors import IsaError
from isa.instructions import Queue
from npuc.firmware.host import host_kernels
from npuc.firmware.toolchain import ToolchainError, build_kernels
from simulator.arm_calls import Kernels
from simulator.arm_kernels import ArmKernels
from simulator.errors import SimulatorFault
from simulator.machine import Machine
from simulator.program import Program, load
from simulator.report import Origin, attributed_ticks, profile
from simulator.strict import check
from simulator.trace import timing
from tests.shared_data import leave_out
from tests.simulator.arm import (
    IO,
    MISSING,
    N,
    PlusOne,
    X,
    Y,
    mixed_binary,
    mixed_output,
    plus_one,
    program,
    ranges,
    store,
)
from tests.simulator.assemble import Assembly, sram

OUT, VEC = Queue.DMA_OUT, Queue.VEC


def kernels(name: str) -> Kernels:
    try:
        return host_kernels() if name == "host" else ArmKernels(build_kernels(name), name)
    except ToolchainError as failure:
        leave_out(f"{failure.message}; {failure.hint}")
        raise


@pytest.mark.parametrize("name", ["host", "cortex-m33", "aarch64"])
def test_kernels_in_c_and_instructions_pass_data_to_and_fro(name: str, rng: np.random.Generator) -> None:
    machine = Machine(load(mixed_binary()), kernels=kernels(name), strict=True)
    for _ in range(3):
        x = rng.integers(0, 256, N, np.uint8)
        assert np.array_equal(machine.run({"x": x})["y"], mixed_output(x))


def run(loaded: Program, strict: bool = False, also: PlusOne | None = None) -> int:
    """y - x of a program that adds the same to every byte."""
    x = np.arange(N, dtype=np.uint8)
    y = Machine(loaded, kernels=also or PlusOne(), strict=strict).run({"x": x})["y"]
    (difference,) = set((y - x).tolist())
    return int(difference)


def test_calls_run_in_order_each_as_soon_as_its_conditions_hold() -> None:
    rows = [store(0, 0x100, arm=1), store(0x200, 0x300, arm=2), store(0x400, Y, arm=4)]
    calls = plus_one(X, 0), plus_one(0x100, 0x200, (OUT, 1)), plus_one(0x300, 0x380, (OUT, 2)), plus_one(0x380, 0x400)
    used = PlusOne()
    assert run(program(rows, *calls), also=used) == 4
    assert used.calls == [(X, 0), (0x100, 0x200), (0x300, 0x380), (0x380, 0x400)]
    assert run(program(rows, *calls), strict=True) == 4


def test_call_behind_the_last_instruction_runs() -> None:
    assert run(program([store(X, 0)], plus_one(0, Y, (OUT, 1))), strict=True) == 1
    assert run(program([], plus_one(X, 0), plus_one(0, Y)), strict=True) == 2


def test_call_without_a_kernel_only_waits() -> None:
    wait = ArmCall(0, 0, 0, b"", ((OUT, 1),), ())
    used = PlusOne()
    assert run(program([store(X, 0), store(0x100, Y, arm=2)], wait, plus_one(0, 0x100)), also=used) == 1
    assert len(used.calls) == 1


def test_counters_beyond_their_range_are_understood() -> None:
    """The call waits for instruction 70,000 of a queue, whose counter has wrapped."""
    rows: list[tuple[str, dict[str, int], None]] = [("wait.vec", {}, None)] * 70_001
    rows[40_000] = ("wait.vec", {"wait0_queue": Queue.ARM, "wait0_count": 1}, None)
    early = ArmCall(0, 0, 0, b"", ((VEC, 40_000),), ())
    loaded = program([*rows, store(0, Y, arm=2)], early, plus_one(X, 0, (VEC, 70_000 % 65536)))
    assert list(Machine(loaded, kernels=PlusOne()).steps)[:2] == [len(loaded.code) + 1, 70_001]


def test_calls_without_kernels_are_a_fault_with_a_hint() -> None:
    with pytest.raises(SimulatorFault, match="2 arm calls, and there are no kernels") as caught:
        Machine(program([], plus_one(X, 0), plus_one(0, Y)))
    assert "pass kernels" in caught.value.hint


def fault(rows: list[tuple[str, dict[str, int], None]], *calls: ArmCall, n_sram: int | None = None) -> str:
    with pytest.raises(SimulatorFault) as caught:
        Machine(program(rows, *calls), n_sram, kernels=PlusOne()).run({"x": np.zeros(N, np.uint8)})
    return str(caught.value)


def test_faults_of_calls_name_the_call() -> None:
    assert fault([], plus_one(X, Y, kernel=MISSING)) == (
        f"arm call 0 (kernel {MISSING}): the kernel refused its parameters"
    )
    assert fault([], plus_one(0, Y)) == "arm call 0 (kernel 1): reads byte 0x0 of sram, which nothing has written"
    assert fault([], plus_one(X, Y), plus_one(X, 0x3000), n_sram=0x3020) == (
        "arm call 1 (kernel 1): writes bytes 0x3000..0x303f of sram, limit 0x3020"
    )
    assert fault([store(X, 0)], plus_one(X, Y, (OUT, 2))) == (
        "arm call 0 (kernel 1): waits for dma_out to retire 2, there are 1"
    )
    assert fault([store(0, Y, arm=1), store(X, 0x100)], plus_one(X, 0, (OUT, 2))) == (
        "instruction 0 (dma.store): waits for arm to retire 1, 0 stand before it"
    )


def test_malformed_section_is_refused() -> None:
    for section in (b"\1", bytes(64), b"\xff" * 64):
        with pytest.raises(IsaError, match="arm"):
            load(Assembly().container(IO, arm_calls=section))


def test_calls_take_their_cycles_beside_the_npu() -> None:
    loaded = program([store(X, 0), store(0x200, Y, arm=2)], plus_one(0, 0x100, (OUT, 1)), plus_one(0x100, 0x200))
    found = timing(loaded)
    rows = {row.index: row for row in found.trace()}
    n = len(loaded.code)
    assert [rows[i].mnemonic for i in (n, n + 1)] == ["arm.call", "arm.call"]
    assert rows[n].start >= rows[0].retire
    assert [(rows[i].retire - rows[i].start) // 1024 for i in (n, n + 1)] == [1000, 1000]
    assert rows[1].start >= rows[n + 1].retire
    assert found.timeline.total_cycles > 2000
    ticks = attributed_ticks(loaded, found.timeline)
    assert ticks.sum() == found.timeline.total_ticks


def test_profile_shows_the_arm_core() -> None:
    loaded = program([store(X, 0), store(0x100, Y, arm=1)], plus_one(0, 0x100, (OUT, 1)), plus_one(0, 0x100))
    n = len(loaded.code)
    names = {0: Origin("copy"), 1: Origin("last"), n: Origin("softmax", ("/Softmax",))}
    found = profile(timing(loaded), names)
    layers = {layer.name: layer for layer in found.layers}
    assert found.arm_cycles == 2000
    assert layers["softmax"].unit == "arm"
    assert layers["softmax"].sources == ("/Softmax",)
    assert 1900 <= layers["softmax"].cycles <= 2000
    assert sum(layer.cycles for layer in found.layers) == found.cycles


def test_deadlock_of_the_timing_names_the_call() -> None:
    loaded = program([store(0, Y, arm=1), store(X, 0x100)], plus_one(X, 0, (OUT, 2)))
    with pytest.raises(SimulatorFault, match="arm call 0 heads queue ARM and waits for DMA_OUT to retire 2"):
        _ = timing(loaded).timeline


def found(rows: list[tuple[str, dict[str, int], None]], *calls: ArmCall) -> list[tuple[str, tuple[int, ...]]]:
    """Findings of strict mode; calls are numbered from 100."""
    loaded = program(rows, *calls)
    n = len(loaded.code)
    places = (
        (finding.kind, tuple(i - n + 100 if i >= n else i for i in finding.instructions)) for finding in check(loaded)
    )
    return list(places)


def test_strict_mode_finds_races_between_calls_and_instructions() -> None:
    assert found([store(0, Y, arm=1)], plus_one(X, 0)) == []
    assert found([store(X, 0), store(X, Y)], plus_one(X, X, (OUT, 1))) == [("race", (100, 1))]
    assert found([store(X, Y)], plus_one(X, X)) == [("race", (100, 0))]
    assert found([store(X, 0), store(X, Y)], plus_one(0, 0x100, (OUT, 1)), plus_one(0, 0x200)) == []
    assert found([store(0x100, Y, arm=1)], plus_one(X, 0x100), plus_one(X, 0x100)) == [("race", (101, 0))]


def test_strict_mode_lets_order_pass_through_calls() -> None:
    wait = ArmCall(0, 0, 0, b"", ((OUT, 1),), ())
    rows = [store(X, 0), ("wait.vec", {"wait0_queue": Queue.ARM, "wait0_count": 1}, None)]
    rows += [store(0, Y, vec=1)]
    assert found(rows, wait) == []
    assert found([store(X, 0), store(0, Y, arm=1)], replace(wait, conditions=())) == [("race", (0, 1))]


def test_strict_mode_finds_deadlocks_with_the_arm_core() -> None:
    assert found([store(0, Y, arm=1)], plus_one(X, 0, (OUT, 1))) == [("deadlock", (0,)), ("deadlock", (100,))]
    full = [store(0, Y, arm=1) for _ in range(17)]
    assert ("deadlock", (16,)) in found([*full, ("wait.vec", {}, None)], plus_one(X, 0, (VEC, 1)))


def test_strict_mode_finds_what_calls_overwrite() -> None:
    """The second call overwrites a part of what the copy wrote, and the copy's reader wants all of it."""
    assert found([store(X, 0), store(0, Y, arm=1)], plus_one(X, 32, (OUT, 1))) == [("overwritten", (0, 1))]
    inner = ArmCall(1, 1, 0, b"", (), (ArmRange(sram(16), 16, True),))
    assert found([store(0, Y, arm=2)], plus_one(X, 0), inner) == []


def test_strict_mode_knows_what_calls_write_for_each_other() -> None:
    """Two calls make one tensor only when nobody has read between them: here, the copy has."""
    inner = ArmCall(1, 1, 0, b"", ((OUT, 1),), (ArmRange(sram(16), 16, True),))
    rest = ArmCall(1, 1, 0, b"", (), (ArmRange(sram(0), 16, True), ArmRange(sram(32), 32, True)))
    assert found([store(0, 0x400, arm=1), store(0, Y, arm=3)], plus_one(X, 0), inner, rest) == []
    kept = [store(0, 0x400, arm=1), store(0, Y, arm=2)]
    assert found(kept, plus_one(X, 0), inner) == [("overwritten", (100, 1))]


@pytest.mark.parametrize(
    ("also", "message"),
    [
        (lambda memory: memory.__setitem__(0x500, memory[0x500] ^ 1),
         "writes byte 0x500 of sram, which is not among the ranges that it writes"),
        (lambda memory: memory.__setitem__(Y + 3, memory[0x500]),
         "byte 0x2003 of sram, which it writes, follows from bytes that are not among the ranges that it reads"),
    ],
)  # fmt: skip
def test_strict_mode_finds_kernels_that_leave_their_ranges(also: object, message: str) -> None:
    used = PlusOne(also)  # type: ignore[arg-type]
    loaded = program([], plus_one(X, Y))
    Machine(loaded, kernels=used).run({"x": np.zeros(N, np.uint8)})
    with pytest.raises(SimulatorFault) as caught:
        Machine(loaded, kernels=used, strict=True).run({"x": np.zeros(N, np.uint8)})
    assert str(caught.value) == f"arm call 0 (kernel 1): {message}"


def test_strict_mode_finds_outputs_that_are_not_written_as_a_whole() -> None:
    call = replace(plus_one(X, Y - 1), ranges=(*ranges(X, Y - 1), ArmRange(sram(Y + N - 1), 1, True)))
    with pytest.raises(SimulatorFault, match="byte 0x203f of sram"):
        Machine(program([], call), kernels=PlusOne(), strict=True).run({"x": np.zeros(N, np.uint8)})
