"""The pace of MAC instructions against a loop over their chunks that shares no code with it."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isa.descriptors import Memory, address
from isa.errors import IsaError
from isa.target import Target
from isa.target_file import load_target
from isa.timing import work_of_one

Values = dict[str, int]

EDGE = load_target("edge-256")
SOC = load_target("soc-1k")
SRAM, FLASH = address(Memory.SRAM, 0), address(Memory.FLASH, 0)


def layer(**changes: int) -> Values:
    """A convolution without padding whose operands are whole channel blocks of 16 apart."""
    v = {"n": 0, "y": 0, "x": 0, "c": 0, "k": 0, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1,
         "scales": SRAM, "weights": SRAM, "ifm_height": 64, "ifm_width": 64, **changes}  # fmt: skip
    v |= {"ifm_channels": v["k_channels"], "ofm_channels": v["channels"]}
    for prefix in ("ifm", "ofm"):
        v |= {f"{prefix}_c0": 16, f"{prefix}_base": SRAM, f"{prefix}_pixel": 16, f"{prefix}_row": 1024}
        v |= {f"{prefix}_block": 65536}
    return v


@st.composite
def layers(draw: st.DrawFn) -> Values:
    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    return layer(
        height=number(1, 24), width=number(1, 24), channels=number(1, 70), k_channels=number(1, 70),
        kernel_h=number(1, 3), kernel_w=number(1, 3), block_h=number(1, 12), block_w=number(1, 12),
        block_c=2 * number(1, 3), weights=draw(st.sampled_from((SRAM, FLASH))),
    )  # fmt: skip


def sizes(extent: int, block: int) -> list[int]:
    return [min(block, extent - at) for at in range(0, extent, block)]


def chunks(v: Values, target: Target) -> list[tuple[float, float, float, float]]:
    """Array cycles, input words, weight bytes of the first group and of the others of every chunk, block by block."""
    taps, lanes = v["kernel_h"] * v["kernel_w"], target.architecture.cout_lanes
    array = work_of_one("mac.conv", v | {"height": 1, "width": 1, "channels": 1}, target)["compute"]
    result: list[tuple[float, float, float, float]] = []
    blocks = product(
        sizes(v["height"], v["block_h"]), sizes(v["width"], v["block_w"]), sizes(v["channels"], 8 * v["block_c"])
    )
    for h, w, c in blocks:
        inputs = sizes(v["k_channels"], 16)
        pixels = (h + v["kernel_h"] - 1) * (w + v["kernel_w"] - 1)
        costs = target.costs
        steps = -(-h // costs.mac_step_pixels_h) * -(-w // costs.mac_step_pixels_w) * -(-c // costs.mac_step_cout)
        for k in inputs:
            first = min(c, lanes) * taps * k
            result.append((steps * array / len(inputs), pixels * -(-k // 8), first, c * taps * k - first))
    return result


def expected(v: Values, target: Target) -> float:
    """Every chunk takes as long as the array, or as the loads beside it."""
    board = target.board
    total = 0.0
    for (array, _, _, others), (_, inputs, weights, _) in pairwise(chunks(v, target)):
        read, flash = 8 * inputs, weights + others
        if v["weights"] == SRAM:
            read, flash = read + flash, 0
        total += max(array, read / board.sram_read_bytes_per_cycle, flash / board.flash_bytes_per_cycle)
    return total


@given(layers(), st.sampled_from((EDGE, SOC)))
@settings(max_examples=150, deadline=None)
def test_pace_is_the_sum_of_what_every_chunk_takes(v: Values, target: Target) -> None:
    try:
        pace = work_of_one("mac.conv", v, target)["pace"]
    except IsaError:
        assume(False)
    value = expected(v, target)
    # Output stage, ports and memories over all channels of a block may take longer than its chunks one by one.
    assert pace >= 0.99 * value - 2
    whole = work_of_one("mac.conv", v, target)
    stage = max(whole["output"], -(-8 * whole["write_words"] // target.board.sram_write_bytes_per_cycle))
    assert pace <= value + stage + 2


def test_blocks_bound_by_the_array_do_not_hide_the_loads_of_others() -> None:
    ragged = layer(
        height=22, width=11, channels=17, k_channels=48, kernel_h=3, kernel_w=3, block_h=15, block_w=7, block_c=2,
        weights=FLASH,
    )  # fmt: skip
    work = work_of_one("mac.conv", ragged, EDGE)
    # Per block of pixels: 16 channels wait for 6912 bytes; of the other one the first two chunks are the array's and
    # the last has 2304 bytes to load beside it, of which the array takes a third of 9 x 3 steps a pixel.
    assert work["pace"] == pytest.approx(expected(ragged, EDGE), rel=0.001)
    assert work["pace"] > 1.1 * max(work["compute"], work["flash_bytes"] - work["first_flash_bytes"])


def test_even_blocks_take_no_longer_than_the_longest_sum() -> None:
    even = layer(
        height=16, width=16, channels=32, k_channels=32, kernel_h=3, kernel_w=3, block_h=8, block_w=8, block_c=4
    )
    work = work_of_one("mac.conv", even, EDGE)
    assert work["pace"] <= work["compute"] - work["last_compute"]


def test_a_stream_of_weights_begins_with_the_states_of_its_decoder() -> None:
    v = layer(height=8, width=8, channels=16, k_channels=16, kernel_h=3, kernel_w=3, block_h=8, block_w=8, block_c=2)
    raw, coded = (work_of_one("mac.conv", v | {"coded_words": n}, EDGE) for n in (0, 250))
    assert coded["pace"] == raw["pace"] + 512 // 8


def test_output_through_the_port_of_the_loads_delays_them() -> None:
    v = layer(height=16, width=8, channels=16, k_channels=64, kernel_h=1, kernel_w=1, block_h=8, block_w=8, block_c=2)
    u55 = load_target("u55-like")
    shared, apart = (replace(u55, board=replace(u55.board, sram_shared_port=is_shared)) for is_shared in (True, False))
    # Every chunk waits for its 160 words, so that the 128 words that the first block writes come on top.
    paces = [work_of_one("mac.conv", v, target)["pace"] for target in (shared, apart)]
    assert paces[0] == paces[1] + 128
