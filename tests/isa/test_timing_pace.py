"""When the last part of a MAC instruction begins: by hand, and laws of the walk. `tests/stepped` compares it with a
model of the machine."""

from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise, product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isa.descriptors import Memory, address
from isa.errors import IsaError
from isa.target import Target
from isa.target_file import load_target
from isa.timing import pace, part_table, parts, work_of_one

Values = dict[str, int]

EDGE = load_target("edge-256")
SOC = load_target("soc-1k")
U55 = load_target("u55-like")
SRAM, FLASH = address(Memory.SRAM, 0), address(Memory.FLASH, 0)


def layer(**changes: int) -> Values:
    """A convolution without padding whose operands are whole channel blocks of 16 apart."""
    v = {"n": 0, "y": 0, "x": 0, "c": 0, "k": 0, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1,
         "scales": SRAM, "weights": SRAM, "table": SRAM, "ifm_height": 64, "ifm_width": 64, **changes}  # fmt: skip
    v |= {"ifm_channels": v["k_channels"], "ofm_channels": v["channels"]}
    for prefix in ("ifm", "ifm2", "ofm"):
        v |= {f"{prefix}_c0": 16, f"{prefix}_base": SRAM, f"{prefix}_pixel": 16, f"{prefix}_row": 1024}
        v |= {f"{prefix}_block": 65536}
    return v | {name: value for name, value in changes.items() if name.startswith(("ifm", "ofm"))}


@st.composite
def layers(draw: st.DrawFn) -> Values:
    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    v = layer(
        height=number(1, 24), width=number(1, 24), channels=number(1, 70), k_channels=number(1, 70),
        kernel_h=number(1, 5), kernel_w=number(1, 3), block_h=number(1, 6), block_w=number(1, 6),
        block_c=number(1, 5), weights=draw(st.sampled_from((SRAM, FLASH))), pad_top=number(0, 2), pad_left=number(0, 2),
        stride_h=number(1, 4), stride_w=number(1, 4), use_residual=number(0, 1), use_table=number(0, 1),
        coded_words=number(0, 1) * number(1, 300),
    )  # fmt: skip
    return v | {f"{prefix}_pixel": draw(st.sampled_from((5, 8, 16))) for prefix in ("ifm", "ifm2", "ofm")}


def sizes(extent: int, block: int) -> list[int]:
    return [min(block, extent - at) for at in range(0, extent, block)]


def one_group_blocks(v: Values) -> list[tuple[int, int]]:
    """Array cycles and weight bytes of every part of blocks of at most 16 output channels on edge-256."""
    taps = v["kernel_h"] * v["kernel_w"]
    rows, pixels = sizes(v["height"], v["block_h"]), sizes(v["width"], v["block_w"])
    blocks = product(rows, pixels, sizes(v["channels"], 16))
    return [(h * w * taps, taps * k * c) for h, w, c in blocks for k in sizes(v["k_channels"], 16)]


RAGGED = layer(
    height=22, width=11, channels=17, k_channels=48, kernel_h=3, kernel_w=3, block_h=15, block_w=7, block_c=2,
    weights=FLASH,
)  # fmt: skip


def test_the_array_computes_a_part_while_the_weights_of_the_next_one_come() -> None:
    steps = one_group_blocks(RAGGED)
    work = work_of_one("mac.conv", RAGGED, EDGE)
    assert work["pace"] == sum(max(array, weights) for (array, _), (_, weights) in pairwise(steps))
    assert work["last_compute"] == steps[-1][0]
    # Blocks that the array bounds do not hide the weights of others.
    assert work["pace"] > 1.1 * max(work["compute"], work["flash_bytes"] - work["first_flash_bytes"])


def test_even_blocks_take_as_long_as_the_array() -> None:
    even = layer(
        height=16, width=16, channels=32, k_channels=32, kernel_h=3, kernel_w=3, block_h=8, block_w=8, block_c=4
    )
    work = work_of_one("mac.conv", even, EDGE)
    assert work["last_compute"] == 64 * 9
    assert work["pace"] == work["compute"] - work["last_compute"]


def test_the_last_part_waits_for_scales_table_and_residual_operand() -> None:
    one = layer(height=4, width=4, channels=16, k_channels=16, kernel_h=3, kernel_w=3, block_h=4, block_w=4, block_c=2)
    assert work_of_one("mac.conv", one, EDGE)["pace"] == 20
    assert work_of_one("mac.conv", one | {"use_table": 1}, EDGE)["pace"] == 20 + 32
    assert work_of_one("mac.conv", one | {"use_table": 1, "use_residual": 1}, EDGE)["pace"] == 20 + 32 + 32


def test_a_half_of_the_weight_buffer_holds_several_groups() -> None:
    wide = layer(height=1, width=1, channels=64, k_channels=16, kernel_h=1, kernel_w=1, block_h=1, block_w=1, block_c=8)
    # Three groups of 32 words come one after the other, then 80 words of scales.
    assert work_of_one("mac.conv", wide, EDGE)["pace"] == 3 * 32 + 80


def test_a_group_that_half_the_weight_buffer_does_not_hold_is_cut_by_taps() -> None:
    large = layer(
        height=8, width=8, channels=16, k_channels=16, kernel_h=5, kernel_w=5, block_h=8, block_w=8, block_c=2
    )
    work = work_of_one("mac.conv", large, EDGE)
    # 16 of the 25 taps fit: the other nine come while these are computed.
    assert work["first_read_words"] == 12 * 12 * 2 + 16 * 32
    assert (work["pace"], work["last_compute"]) == (64 * 16, 64 * 9)


def test_input_stays_a_chunk_ahead_of_the_array() -> None:
    deep = layer(height=8, width=8, channels=16, k_channels=64, kernel_h=1, kernel_w=1, block_h=8, block_w=8, block_c=2)
    # Every chunk has 128 words of input and 32 of weights, for 64 cycles of the array; scales come behind the first.
    assert work_of_one("mac.conv", deep, EDGE)["pace"] == 3 * 160 + 20


def test_a_block_waits_until_half_of_the_accumulators_is_free() -> None:
    v = layer(height=1, width=64, channels=16, k_channels=16, kernel_h=1, kernel_w=1, block_h=1, block_w=16, block_c=2)
    slow = replace(EDGE, board=replace(EDGE.board, sram_read_bytes_per_cycle=64, sram_write_bytes_per_cycle=2))
    work = work_of_one("mac.conv", v, slow)
    # Scales come in 3 cycles; 16 pixels of 16 bytes take 128 cycles at the port; the last block waits for the second.
    assert work["pace"] == pytest.approx(3 + 2 * 128, abs=1)
    assert work["last_write_words"] == 16 * 2 + 16 * 2


def test_output_through_the_port_of_the_loads_delays_them() -> None:
    v = layer(height=16, width=8, channels=16, k_channels=64, kernel_h=1, kernel_w=1, block_h=8, block_w=8, block_c=2)
    shared, apart = (replace(U55, board=replace(U55.board, sram_shared_port=is_shared)) for is_shared in (True, False))
    # Every chunk waits for its 160 words, so that the 128 words that the first block writes come on top.
    paces = [work_of_one("mac.conv", v, target)["pace"] for target in (shared, apart)]
    assert paces[0] == pytest.approx(paces[1] + 128, abs=2)


@given(layers(), st.sampled_from((EDGE, SOC, U55)), st.booleans())
@settings(max_examples=150, deadline=None)
def test_blocks_that_are_skipped_go_like_the_one_before_them(v: Values, target: Target, is_depthwise: bool) -> None:
    mnemonic = "mac.depthwise" if is_depthwise else "mac.conv"
    v |= {"ofm_channels": v["ifm_channels"], "channels": v["ifm_channels"]} if is_depthwise else {}
    try:
        found = work_of_one(mnemonic, v, target)
    except IsaError:
        assume(False)
    with patch.object(pace, "_is_even", lambda f, *_: np.zeros_like(f.index)):
        assert work_of_one(mnemonic, v, target) == found


@given(layers(), st.sampled_from((EDGE, U55)))
@settings(max_examples=40, deadline=None)
def test_plain_python_walks_alike(v: Values, target: Target) -> None:
    try:
        found = work_of_one("mac.conv", v, target)
    except IsaError:
        assume(False)
    with ExitStack() as stack:
        stack.enter_context(patch.object(pace, "IS_COMPILED", False))
        for module in (parts, part_table):
            for name, kernel in list(vars(module).items()):
                if hasattr(kernel, "py_func"):
                    stack.enter_context(patch.object(module, name, kernel.py_func))
        assert work_of_one("mac.conv", v, target) == found
