"""Small programs with Arm calls: calls of a kernel made of numpy, or of the table kernel in C."""

from collections.abc import Callable, Sequence

import numpy as np

from isa.arm_calls import ArmCall, ArmRange, encode_arm_calls
from isa.container import CONSTANTS_OFFSET
from isa.instructions import Queue
from npuc.arm.kernel_spec import FLASH, KERNEL, SRAM, Value, encode_parameters
from simulator.memory import Bytes
from simulator.program import Program, load
from tests.simulator.assemble import Assembly, io_entry, sram

N = 64
X, Y = 0x1000, 0x2000
IO = (io_entry("x", "in", "uint8", (N,), X), io_entry("y", "out", "uint8", (N,), Y))
MISSING = 99
"""A kernel that `PlusOne` refuses."""

Conditions = tuple[tuple[Queue, int], ...]


class PlusOne:
    """Kernel 1: y = x + 1 for N bytes; `calls` notes what ran. `also` may touch more of sram."""

    def __init__(self, also: Callable[[Bytes], None] = lambda sram: None) -> None:
        self.calls: list[tuple[int, int]] = []
        self._also = also

    def run(self, calls: Sequence[tuple[int, int, bytes]], sram: Bytes, flash: Bytes) -> int:
        for n_done, (kernel, _, parameters) in enumerate(calls):
            if kernel == MISSING:
                return n_done
            source, target = np.frombuffer(parameters, "<i4").tolist()
            self.calls.append((source, target))
            sram[target : target + N] = sram[source : source + N] + 1
            self._also(sram)
        return len(calls)


def plus_one(source: int, target: int, *conditions: tuple[Queue, int], cycles: int = 1000, kernel: int = 1) -> ArmCall:
    parameters = np.array([source, target], "<i4").tobytes()
    return ArmCall(kernel, 1, cycles, parameters, conditions, ranges(source, target))


def ranges(source: int, target: int, n_bytes: int = N) -> tuple[ArmRange, ...]:
    return ArmRange(sram(source), n_bytes, False), ArmRange(sram(target), n_bytes, True)


def table_call(source: int, target: int, table: int, *conditions: tuple[Queue, int], n_bytes: int = N) -> ArmCall:
    """The table kernel on uint8; `table` is the offset of 256 bytes in the program."""
    shape, stride = (1, 1, 1, n_bytes), (0, 0, 0, 1)
    x, y = (((SRAM, place), shape, stride) for place in (source, target))
    values: dict[str, Value] = {"x": x, "table": (FLASH, table), "y": y, "is_unsigned": 1}
    spec = KERNEL["table"]
    parameters = encode_parameters(spec, values)
    return ArmCall(spec.kernel_id, spec.version, 10 * n_bytes, parameters, conditions, ranges(source, target, n_bytes))


def store(source: int, target: int, **conditions: int) -> tuple[str, dict[str, int], None]:
    """A copy of N bytes in dma-out; `arm=2` waits for two calls."""
    fields = {"source": sram(source), "destination": sram(target), "length": N}
    for i, (name, count) in enumerate(conditions.items()):
        fields |= {f"wait{i}_queue": Queue[name.upper()], f"wait{i}_count": count}
    return "dma.store", fields, None


def program(rows: Sequence[tuple[str, dict[str, int], None]], *calls: ArmCall) -> Program:
    assembly = Assembly()
    assembly.rows += rows
    return load(assembly.container(IO, arm_calls=encode_arm_calls(calls)))


def mixed_binary() -> bytes:
    """x -> table on the Arm core -> copy by DMA -> the table again -> copied to y; a call on loaded bytes beside it."""
    assembly = Assembly()
    squares = (np.arange(256) ** 2 % 251).astype(np.uint8).tobytes()
    table = CONSTANTS_OFFSET + len(assembly.constants)
    assembly.constant(squares)
    source = assembly.constant(bytes(range(N)))
    assembly.add("dma.load", {"source": source, "destination": sram(0), "length": N})
    assembly.rows += [store(0x400, 0x500, arm=1), store(0x600, Y, arm=3)]
    calls = (
        table_call(X, 0x400, table),
        table_call(0, 0x700, table, (Queue.DMA_IN, 1)),
        table_call(0x500, 0x600, table, (Queue.DMA_OUT, 1)),
    )
    return assembly.container(IO, arm_calls=encode_arm_calls(calls), metadata={"sram_peak_bytes": Y + N})


def mixed_output(x: Bytes) -> Bytes:
    """What `mixed_binary` computes."""
    squares = (np.arange(256) ** 2 % 251).astype(np.uint8)
    return squares[squares[x]]
