"""The profile gives every cycle, multiply and byte to exactly one layer."""

import numpy as np

from isa.instructions import Queue
from isa.timing import TICKS
from simulator.machine import Machine
from simulator.program import Program, load
from simulator.report import Origin, attributed_ticks, profile
from simulator.trace import timing
from tests.simulator.assemble import WHOLE_SRAM, Assembly, sram
from tests.simulator.layer import SIDE, conv_layer, scales, whole


def program() -> Program:
    """Load weights, convolve twice, add, copy out: instructions of four queues that overlap."""
    assembly = Assembly()
    weights = assembly.constant(bytes(64))
    layer = conv_layer(8, 8, scales(assembly, 8)) | {"block_h": SIDE, "block_w": SIDE}
    loaded = {"wait0_queue": Queue.DMA_IN, "wait0_count": 1}
    computed = {"wait0_queue": Queue.MAC, "wait0_count": 2}
    assembly.add("dma.load", {"source": weights, "destination": sram(0x4000), "length": 64})
    for _ in range(2):
        assembly.add("mac.conv", {**whole(8), "k": 0, "k_channels": 8, "weights": sram(0x4000), **loaded}, layer)
    assembly.add("dma.load", {"source": weights, "destination": sram(0x5000), "length": 64})
    assembly.add("vec.copy", {**whole(8), **computed}, layer | {"ifm_base": sram(0x2000), "ofm_base": sram(0x6000)})
    assembly.add("dma.store", {"source": sram(0x6000), "destination": sram(0x7000), "length": 64})
    return load(assembly.container(WHOLE_SRAM))


def test_every_tick_belongs_to_one_instruction() -> None:
    loaded = program()
    times = timing(loaded).timeline
    ticks = attributed_ticks(loaded, times)
    assert ticks.min() >= 0
    assert ticks.sum() == times.total_ticks


def test_attribution_equals_a_walk_over_all_ticks() -> None:
    loaded = program()
    times = timing(loaded).timeline
    queues = loaded.code.queue
    expected = np.zeros(len(queues), np.int64)
    for moment in range(0, times.total_ticks, TICKS // 4):
        running = []
        for queue in (Queue.MAC, Queue.VEC, Queue.DMA_IN, Queue.DMA_OUT):
            begun = [i for i in range(len(queues)) if queues[i] == queue and 0 <= times.start[i] <= moment]
            running += [i for i in begun[-1:] if moment < times.retire[i]]
        waiting = [i for i in range(len(queues)) if times.start[i] >= moment]
        following = min(waiting, key=lambda i: int(times.start[i]), default=int(times.retire.argmax()))
        expected[running[0] if running else following] += 1
    sampled = attributed_ticks(loaded, times) / (TICKS // 4)
    assert np.abs(sampled - expected).max() <= 2


def test_layers_sum_to_the_run() -> None:
    loaded = program()
    index = {
        spec: [i for i in range(len(loaded.code)) if loaded.spec(i).mnemonic == spec]
        for spec in ("mac.conv", "vec.copy")
    }
    origins = {i: Origin("conv", ("Conv_0", "Relu_1")) for i in index["mac.conv"]}
    origins |= {i: Origin("copy", ("Transpose_2",)) for i in index["vec.copy"]}
    result = profile(timing(loaded), origins)
    assert [layer.name for layer in result.layers] == ["conv", "copy"]
    assert result.layers[0].unit == "mac"
    assert result.layers[0].sources == ("Conv_0", "Relu_1")
    assert sum(layer.cycles for layer in result.layers) == result.cycles
    assert sum(layer.macs for layer in result.layers) == result.macs == 2 * 8 * 8 * SIDE * SIDE
    assert sum(layer.bytes for layer in result.layers) == result.offchip_bytes
    assert 0 < result.utilization < 1


def test_trace_has_a_row_for_every_instruction() -> None:
    loaded = program()
    rows = timing(loaded).trace()
    assert [row.mnemonic for row in rows] == [loaded.spec(i).mnemonic for i in range(len(rows))]
    assert all(row.start <= row.issue_end <= row.retire for row in rows)


def test_program_of_the_report_runs() -> None:
    Machine(program()).run({"sram": np.zeros(1 << 16, np.uint8)})
