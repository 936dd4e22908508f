"""Cost formulas against a slow enumeration of blocks, pixels and byte addresses that shares no code with them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isa.descriptors import Memory, address
from isa.errors import IsaError
from isa.instructions import BY_MNEMONIC
from isa.target import Target
from isa.target_file import load_target
from isa.timing import Work, block_fits, bound_cycles, least_work_of, scale_sim_cycles, work_of, work_of_one

Values = dict[str, int]

EDGE = load_target("edge-256")
U55 = load_target("u55-like")
SRAM = address(Memory.SRAM, 0)
LAYER: Values = {
    "n": 0, "y": 0, "x": 0, "c": 0, "k": 0, "kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1,
    "dilation_h": 1, "dilation_w": 1, "pad_top": 0, "pad_left": 0, "block_h": 8, "block_w": 8, "block_c": 2,
    "scales": SRAM + 4096, "table": SRAM + 8192, "weights": SRAM + 16384, "k_channels": 1,
}  # fmt: skip


def pieces(first: int, count: int, cuts: set[int]) -> Iterator[tuple[int, int]]:
    """Channel ranges of [first, first + count) between `cuts`."""
    edges = sorted({first, first + count} | {cut for cut in cuts if first < cut < first + count})
    yield from pairwise(edges)


def touched(v: Mapping[str, int], prefix: str, y: int, x: int, low: int, high: int) -> int:
    """Words that one access to channels [low, high) of pixel (y, x) touches, byte by byte."""
    size = (1, 1, 2, 4)[v.get(f"{prefix}_type", 0)]
    block, c0 = low // v[f"{prefix}_c0"], v[f"{prefix}_c0"]
    total = v["ifm_channels"] if prefix == "ifm" else v["ofm_channels"]
    is_last = total % c0 != 0 and block == total // c0
    pixel = (v.get(f"{prefix}_last_pixel", 0) if is_last else 0) or v[f"{prefix}_pixel"]
    row = (v.get(f"{prefix}_last_row", 0) if is_last else 0) or v[f"{prefix}_row"]
    start = v[f"{prefix}_base"] + block * v[f"{prefix}_block"] + y * row + x * pixel + (low - block * c0) * size
    return len({byte // 8 for byte in range(start, start + (high - low) * size)})


def blocks(v: Mapping[str, int], axis: str, extent: str, size: int) -> list[range]:
    first, stop = v[axis], v[axis] + v[extent]
    return [range(at, min(at + size, stop)) for at in range(first, stop, size)]


def needed(v: Mapping[str, int], outputs: range, suffix: str, pad: str, limit: str) -> list[int]:
    """Input rows of a block: from each window's first to its last, windows that overlap counted once."""
    rows: set[int] = set()
    for output in outputs:
        start = output * v[f"stride_{suffix}"] - v[pad]
        rows |= set(range(start, start + (v[f"kernel_{suffix}"] - 1) * v[f"dilation_{suffix}"] + 1))
    return sorted(row for row in rows if 0 <= row < v[limit])


def brute_input_words(v: Mapping[str, int], is_depthwise: bool) -> int:
    total = 0
    for rows in blocks(v, "y", "height", v["block_h"]):
        for pixels in blocks(v, "x", "width", v["block_w"]):
            for channels in blocks(v, "c", "channels", 8 * v["block_c"]):
                first, count = (channels.start, len(channels)) if is_depthwise else (v["k"], v["k_channels"])
                cuts = set(range(0, first + count, v["ifm_c0"]))
                total += sum(
                    touched(v, "ifm", y, x, low, high)
                    for y in needed(v, rows, "h", "pad_top", "ifm_height")
                    for x in needed(v, pixels, "w", "pad_left", "ifm_width")
                    for low, high in pieces(first, count, cuts)
                )
    return total


def brute_output_words(v: Mapping[str, int], prefix: str = "ofm") -> int:
    return sum(
        touched(v, prefix, y, x, low, high)
        for channels in blocks(v, "c", "channels", 8 * v["block_c"])
        for y in range(v["y"], v["y"] + v["height"])
        for x in range(v["x"], v["x"] + v["width"])
        for low, high in pieces(channels.start, len(channels), set(range(0, channels.stop, v[f"{prefix}_c0"])))
    )


def run_words(start: int, length: int) -> int:
    return len({byte // 8 for byte in range(start, start + length)})


def weight_runs(v: Mapping[str, int], n_outputs: int) -> list[tuple[int, int]]:
    """(offset, length) of what a block's chunks read of [group][tap][input channel][16 output channels]."""
    k, depth, taps = v["k"], v["k_channels"], v["kernel_h"] * v["kernel_w"]
    chunks = list(pieces(k, depth, set(range(0, k + depth, v["ifm_c0"]))))
    if len(chunks) == 1:
        return [(0, n_outputs * taps * depth)]
    return [
        (first * taps * depth + (tap * depth + low - k) * width, (high - low) * width)
        for first in range(0, n_outputs, 16)
        for width in [min(16, n_outputs - first)]
        for tap in range(taps)
        for low, high in chunks
    ]


def brute_side_words(v: Mapping[str, int], is_depthwise: bool) -> int:
    """Weights, scales, table and residual."""
    total = run_words(v["scales"] + 10 * v["c"], 10 * v["channels"]) + (32 if v.get("use_table", 0) else 0)
    n_pixel_blocks = len(blocks(v, "y", "height", v["block_h"])) * len(blocks(v, "x", "width", v["block_w"]))
    per_channel = v["kernel_h"] * v["kernel_w"] * (1 if is_depthwise else v["k_channels"])
    for channels in blocks(v, "c", "channels", 8 * v["block_c"]):
        start = v["weights"] + (channels.start - v["c"]) * per_channel
        runs = [(0, len(channels) * per_channel)] if is_depthwise else weight_runs(v, len(channels))
        total += n_pixel_blocks * sum(run_words(start + at, length) for at, length in runs)
    return total + (brute_output_words(v, "ifm2") if v.get("use_residual", 0) else 0)


@st.composite
def layers(draw: st.DrawFn, is_depthwise: bool) -> Values:
    """Small layers with pads, strides, dilations and ragged blocks; strides aligned, or odd in pixel and row."""

    def number(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    v = dict(LAYER)
    v |= {name: number(1, 3) for name in ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")}
    v |= {"pad_top": number(0, 5), "pad_left": number(0, 5), "ifm_height": number(1, 12), "ifm_width": number(1, 12)}
    v |= {"y": number(0, 4), "x": number(0, 4), "height": number(1, 11), "width": number(1, 9)}
    v |= {"block_h": number(1, 5), "block_w": number(1, 5), "weights": SRAM + number(0, 99)}
    is_odd = draw(st.booleans())
    c0 = draw(st.sampled_from((8, 16, 32)))
    v["block_c"] = c0 // 8 * number(1, 2) if is_odd else number(1, 4)
    v["c"] = c0 * number(0, 2) if is_odd else 8 * number(0, 5)
    v["channels"], v["k"], v["k_channels"] = number(1, 50), number(0, 20), number(1, 40)
    v["ofm_channels"] = v["c"] + v["channels"] + draw(st.sampled_from((0, 0, 3, 20)))
    v["ifm_channels"] = v["ofm_channels"] if is_depthwise else v["k"] + v["k_channels"] + number(0, 1)
    v |= {"use_residual": number(0, 1), "use_table": number(0, 1)}
    for prefix in ("ifm", "ifm2", "ofm"):
        step = draw(st.sampled_from((1, 2, 4))) if is_odd else 8
        v |= {f"{prefix}_c0": c0, f"{prefix}_base": SRAM + step * number(0, 40), f"{prefix}_pixel": step * number(0, 9)}
        v |= {f"{prefix}_row": step * number(0, 50), f"{prefix}_block": step * number(0, 300)}
        v |= {f"{prefix}_last_pixel": step * number(0, 3), f"{prefix}_last_row": step * number(0, 20)}
        v[f"{prefix}_type"] = 2 if prefix == "ofm" and is_odd else 0
    return v


@given(st.booleans().flatmap(lambda d: st.tuples(st.just(d), layers(d))))
@settings(max_examples=150, deadline=None)
def test_port_words_of_mac_equal_an_enumeration_of_every_access(case: tuple[bool, Values]) -> None:
    is_depthwise, v = case
    work = work_of_one("mac.depthwise" if is_depthwise else "mac.conv", v, EDGE)
    assert work["write_words"] == brute_output_words(v)
    assert work["read_words"] == brute_input_words(v, is_depthwise) + brute_side_words(v, is_depthwise)
    for part, whole in (
        ("first_read_words", "read_words"),
        ("last_write_words", "write_words"),
        ("last_compute", "compute"),
        ("last_output", "output"),
    ):
        assert 0 <= work[part] <= work[whole]


@given(st.booleans().flatmap(lambda d: st.tuples(st.just(d), layers(d))), st.sampled_from((EDGE, U55)))
@settings(max_examples=150, deadline=None)
def test_compute_cycles_equal_a_loop_over_blocks(case: tuple[bool, Values], target: object) -> None:
    is_depthwise, v = case
    machine = EDGE if target is EDGE else U55
    costs, taps = machine.costs, v["kernel_h"] * v["kernel_w"]
    if is_depthwise:
        step_h = step_w = 1
        step_c, cycles = costs.depthwise_channels, -(-taps // costs.depthwise_taps)
    else:
        step_h, step_w, step_c = costs.mac_step_pixels_h, costs.mac_step_pixels_w, costs.mac_step_cout
        options = []
        for lanes, at_once in costs.mac_step_taps:
            options.append(-(-taps // at_once) * -(-v["k_channels"] // lanes))
            if at_once == 1 and v["k_channels"] < lanes:
                options.append(v["kernel_h"] * -(-v["kernel_w"] * v["k_channels"] // lanes))
        cycles = costs.mac_step_cycles * min(options)
    expected = sum(
        -(-len(rows) // step_h) * -(-len(pixels) // step_w) * -(-len(channels) // step_c) * cycles
        for rows in blocks(v, "y", "height", v["block_h"])
        for pixels in blocks(v, "x", "width", v["block_w"])
        for channels in blocks(v, "c", "channels", 8 * v["block_c"])
    )
    assert work_of_one("mac.depthwise" if is_depthwise else "mac.conv", v, machine)["compute"] == expected


@given(layers(True), st.sampled_from(("vec.maxpool", "vec.avgpool")))
@settings(max_examples=60, deadline=None)
def test_pool_reads_the_windows_of_a_block_once(v: Values, mnemonic: str) -> None:
    v |= {"use_residual": 0, "use_table": 0}
    work = work_of_one(mnemonic, v, EDGE)
    assert work["read_words"] == brute_input_words(v, is_depthwise=True)
    assert work["compute"] == -(-v["height"] * v["width"] * v["channels"] * v["kernel_h"] * v["kernel_w"] // 16)


@given(layers(False))
@settings(max_examples=60, deadline=None)
def test_elementwise_reads_both_operands_like_its_output(v: Values) -> None:
    whole = v | {"block_c": 255, "kernel_h": 1, "kernel_w": 1, "use_table": 0}
    whole["ifm_channels"] = v["ofm_channels"]
    work = work_of_one("vec.add", whole, EDGE)
    assert work["read_words"] == brute_output_words(whole, "ifm") + brute_output_words(whole, "ifm2")
    assert work["write_words"] == brute_output_words(whole)
    assert work["compute"] == -(-v["height"] * v["width"] * v["channels"] // 4)
    assert work_of_one("vec.add", whole, U55)["compute"] == -(-v["height"] * v["width"] * v["channels"] * 3 // 4)


@st.composite
def copies(draw: st.DrawFn) -> Values:
    v = {"size_0": draw(st.integers(1, 40)), "source": draw(st.integers(0, 99)), "destination": SRAM}
    v["destination"] += draw(st.integers(0, 99))
    for i in (1, 2, 3):
        v[f"size_{i}"] = draw(st.integers(1, 19))
        v |= {f"{side}_{i}": draw(st.integers(0, 300)) for side in ("source", "destination")}
    return v


@given(copies())
@settings(max_examples=100, deadline=None)
def test_dma_moves_the_words_of_every_run_each_when_its_last_byte_has_come(v: Values) -> None:
    words = {"source": 0, "destination": 0}
    now = 0
    for c, b, a in np.ndindex(v["size_3"], v["size_2"], v["size_1"]):
        source, place = (
            v[side] + a * v[f"{side}_1"] + b * v[f"{side}_2"] + c * v[f"{side}_3"] for side in ("source", "destination")
        )
        for end in (*range(8 - place % 8, v["size_0"], 8), v["size_0"]):
            now = max(now + 1, words["source"] + run_words(source, end))
        words["source"] += run_words(source, v["size_0"])
        words["destination"] += run_words(place, v["size_0"])
    load, fill = work_of_one("dma.load4", v, EDGE), work_of_one("dma.fill", v, EDGE)
    assert load["compute"] == now
    assert load["write_words"] == fill["write_words"] == fill["compute"] == words["destination"]
    assert load["flash_bytes"] == v["size_0"] * v["size_1"] * v["size_2"] * v["size_3"]
    assert fill["flash_bytes"] == fill["read_words"] == fill["drain_cycles"] == 0
    assert (load["lead_cycles"], load["drain_cycles"]) == (16, 64)


def stem(**changes: int) -> Values:
    """A 3x3 convolution of 3 channels of 8x8 pixels to 16 channels, one block."""
    v = LAYER | {"height": 8, "width": 8, "channels": 16, "k_channels": 3, "ifm_channels": 3, "ofm_channels": 16}
    v |= {"kernel_h": 3, "kernel_w": 3, "pad_top": 1, "pad_left": 1, "ifm_height": 8, "ifm_width": 8}
    for prefix, pixel in (("ifm", 3), ("ofm", 16)):
        v |= {f"{prefix}_base": SRAM, f"{prefix}_pixel": pixel, f"{prefix}_row": 8 * pixel}
        v |= {f"{prefix}_block": 64 * pixel, f"{prefix}_c0": 16}
    return v | changes


def test_stem_packs_the_taps_of_a_kernel_row() -> None:
    assert work_of_one("mac.conv", stem(), EDGE)["compute"] == 64 * 3
    # 2 x 2 pixels and 8 channels a step: 16 x 2 steps of 4 cycles, 3 packed rows each.
    assert work_of_one("mac.conv", stem(), U55)["compute"] == 16 * 2 * 3 * 4


def test_stem_by_hand() -> None:
    work = work_of_one("mac.conv", stem(), EDGE)
    # Of 3-byte pixels at 0, 3, 6, ..., 21 those at 6 and 15 cross a word: 10 words a row.
    assert work["read_words"] == 8 * 10 + 27 * 16 // 8 + 20
    assert work["write_words"] == 64 * 2
    assert work["output"] == 64
    assert work["first_read_words"] == 8 * 10 + 27 * 16 // 8
    assert (work["last_compute"], work["last_output"], work["last_write_words"]) == (64 * 3, 64, 128)
    assert (work["lead_cycles"], work["drain_cycles"], work["stream_bytes"]) == (32 + 16, 16, 32)


def test_int16_activations_halve_the_rate() -> None:
    assert work_of_one("mac.conv", stem(ifm_type=2), EDGE)["compute"] == 2 * 64 * 3


def test_weights_in_flash_pass_once_for_each_block_of_pixels() -> None:
    work = work_of_one("mac.conv", stem(weights=0, scales=0, block_h=3), EDGE)
    assert work["flash_bytes"] == 3 * 27 * 16 + 160
    assert work["first_flash_bytes"] == 27 * 16
    assert work["lead_cycles"] == 64 + 16


def test_coded_weights_pass_as_words_of_their_stream() -> None:
    coded = {"coded_words": 41, "code_table": 2}
    work = work_of_one("mac.conv", stem(weights=0, scales=0, block_h=3, **coded), EDGE)
    assert work["flash_bytes"] == 3 * 41 * 8 + 160 + 32
    assert work["first_flash_bytes"] == 41 * 8 + 32
    in_sram = work_of_one("mac.conv", stem(block_h=3, **coded), EDGE)
    raw = work_of_one("mac.conv", stem(block_h=3), EDGE)
    assert in_sram["read_words"] == raw["read_words"] + 3 * (41 - 27 * 2) + 4


def test_the_first_chunk_takes_its_share_of_a_stream() -> None:
    wide = {"k_channels": 32, "ifm_channels": 32, "ifm_pixel": 32, "ifm_row": 256}
    work = work_of_one("mac.conv", stem(weights=0, coded_words=100, **wide), EDGE)
    assert work["first_flash_bytes"] == 800 // 2


def test_the_decoder_bounds_the_datapath() -> None:
    few_pixels = {"height": 1, "width": 1, "k_channels": 512, "ifm_channels": 512, "kernel_h": 1, "kernel_w": 1}
    raw = work_of_one("mac.conv", stem(**few_pixels), EDGE)
    coded = work_of_one("mac.conv", stem(coded_words=900, **few_pixels), EDGE)
    assert (raw["compute"], coded["compute"]) == (32, (512 + 16 * 512) // 8)
    assert work_of_one("mac.conv", stem(coded_words=40), EDGE)["compute"] == 64 * 3


def test_vector_classes_by_hand() -> None:
    v = stem(ifm_channels=16, ifm_pixel=16, ifm_row=128, ifm2_base=SRAM, ifm2_pixel=16, ifm2_row=128, ifm2_c0=16)
    cycles = {name: work_of_one(name, v, EDGE)["compute"] for name in BY_MNEMONIC if name.startswith("vec.")}
    assert cycles == {
        "vec.add": 256, "vec.sub": 256, "vec.mul": 256, "vec.table": 64, "vec.maxpool": 576, "vec.avgpool": 576,
        "vec.mean": 64, "vec.softmax": 1024, "vec.resize": 256, "vec.copy": 256, "vec.sigmoid": 64, "vec.tanh": 64,
        "vec.bilinear": 1024,
    }  # fmt: skip
    reads = {name: work_of_one(name, v, EDGE)["read_words"] for name in ("vec.sub", "vec.table", "vec.softmax")}
    assert reads == {"vec.sub": 256, "vec.table": 128 + 32, "vec.softmax": 128}
    assert work_of_one("vec.table", v, EDGE)["first_read_words"] == 32
    mean = v | {"height": 1, "width": 1}
    assert work_of_one("vec.mean", mean, EDGE)["read_words"] == 128
    assert work_of_one("vec.resize", v | {"stride_h": 2, "stride_w": 2}, EDGE)["read_words"] == 32


def test_fetched_bytes_follow_the_instruction_table() -> None:
    assert work_of_one("desc.load", {"words": 9}, EDGE) | {"stream_bytes": 16, "descriptor_bytes": 72} == work_of_one(
        "desc.load", {"words": 9}, EDGE
    )
    assert work_of_one("wait.mac", {}, EDGE)["stream_bytes"] == 16


def test_blocks_larger_than_half_a_buffer_are_refused() -> None:
    big = stem(height=64, width=64, ifm_height=64, ifm_width=64, block_h=16, block_w=9)
    with pytest.raises(IsaError, match="instruction 0: block exceeds half of a buffer of target edge-256"):
        work_of_one("mac.conv", big, EDGE)
    columns = {name: np.array([value, value], np.int64) for name, value in big.items()}
    columns["opcode"] = np.full(2, BY_MNEMONIC["mac.conv"].opcode)
    columns["block_w"] = np.array([9, 8])
    assert block_fits(columns, EDGE).tolist() == [False, True]


def test_unknown_opcode_is_named() -> None:
    with pytest.raises(IsaError, match="unknown opcode 0x7f"):
        work_of({"opcode": np.array([0x7F])}, EDGE)


@given(layers(False), layers(True))
@settings(max_examples=30, deadline=None)
def test_columns_equal_one_instruction_at_a_time(conv: Values, depthwise: Values) -> None:
    rows = [("mac.conv", conv), ("mac.depthwise", depthwise), ("vec.mul", conv), ("vec.maxpool", depthwise)]
    names = sorted({*conv, *depthwise})
    columns = {name: np.array([values.get(name, 0) for _, values in rows], np.int64) for name in names}
    columns["opcode"] = np.array([BY_MNEMONIC[mnemonic].opcode for mnemonic, _ in rows])
    work = work_of(columns, EDGE)
    for i, (mnemonic, values) in enumerate(rows):
        assert {name: int(getattr(work, name)[i]) for name in vars(work)} == work_of_one(mnemonic, values, EDGE)


@given(layers(False))
@settings(max_examples=40, deadline=None)
def test_int8_weights_never_beat_the_array(v: Values) -> None:
    assume(v["channels"] > 0)
    macs = v["height"] * v["width"] * v["channels"] * v["kernel_h"] * v["kernel_w"] * v["k_channels"]
    for target in (EDGE, U55):
        assert work_of_one("mac.conv", v, target)["compute"] * 256 >= macs


@given(st.booleans().flatmap(lambda d: st.tuples(st.just(d), layers(d))), st.sampled_from((EDGE, U55)))
@settings(max_examples=300, deadline=None)
def test_least_cycles_are_a_bound_of_the_busiest_resource(case: tuple[bool, Values], target: Target) -> None:
    is_depthwise, v = case
    for prefix in ("ifm", "ofm"):  # no two pixels share bytes
        pixel = 2 * v[f"{prefix}_c0"]
        v |= {f"{prefix}_{name}": pixel for name in ("pixel", "last_pixel")}
        v |= {f"{prefix}_row": 32 * pixel, f"{prefix}_last_row": 32 * pixel, f"{prefix}_block": 1024 * pixel}
    columns = {name: np.array([value]) for name, value in v.items()}
    columns["opcode"] = np.array([BY_MNEMONIC["mac.depthwise" if is_depthwise else "mac.conv"].opcode])
    assume(block_fits(columns, target).all())
    assert bound_cycles(least_work_of(columns, target), target) <= bound_cycles(work_of(columns, target), target)


def test_bound_is_the_busiest_resource() -> None:
    work = Work(**{name: np.array([0]) for name in Work.__dataclass_fields__})
    work = replace(work, compute=np.array([10]), read_words=np.array([30]), write_words=np.array([20]))
    assert bound_cycles(work, EDGE).tolist() == [30]
    assert bound_cycles(work, U55).tolist() == [50]
    assert bound_cycles(replace(work, flash_bytes=np.array([99])), EDGE).tolist() == [99]


def test_scale_sim_closed_forms() -> None:
    assert scale_sim_cycles(16, 16, 100, 27, 40, is_output_stationary=True) == 7 * 3 * (27 + 30)
    assert scale_sim_cycles(16, 16, 100, 27, 40, is_output_stationary=False) == 2 * 3 * (100 + 46)
