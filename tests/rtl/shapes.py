"""Random MAC instructions on edge-64, with all their operands in sram."""

from dataclasses import dataclass

import numpy as np

from isa.target_file import load_target
from isa.timing import block_fits
from simulator.machine import Machine
from simulator.program import Program, load
from tests.rtl.bench import Bytes, Job
from tests.simulator.assemble import SRAM_BYTES, Assembly, sram
from tests.simulator.layer import records

Fields = dict[str, int]
Random = np.random.Generator

TARGET = load_target("edge-64")
LANES = TARGET.architecture.cout_lanes
IFM, RESIDUAL, OFM, WEIGHTS, SCALES, TABLE = 0x0000, 0x4000, 0x7000, 0xA000, 0xF000, 0xFE00
"""Places of the operands: an input of at most 16 KiB, outputs of at most 12 KiB, weights of at most 20 KiB."""

BATCH_BYTES = 0x1700
"""A tensor of at most this many bytes has a second batch entry behind the first."""

SCALES_BYTES = 0x300
"""From the constants of one `scale_form` to those of the next: 64 channels and a code table."""


@dataclass(frozen=True)
class Case:
    """One instruction: its fields, those of its layer, and what it is called in a message."""

    mnemonic: str
    values: Fields
    layer: Fields

    def __str__(self) -> str:
        v, d = self.values, self.layer
        return (
            f"{self.mnemonic} {v['height']}x{v['width']}x{v['channels']} of {v['k_channels']} channels, "
            f"kernel {d['kernel_h']}x{d['kernel_w']}, stride {d['stride_h']}x{d['stride_w']}, "
            f"block {d['block_h']}x{d['block_w']}x{8 * d['block_c']}"
        )


def tensor(rng: Random, prefix: str, offset: int, shape: tuple[int, int, int], *, aligned: bool) -> Fields:
    """A layout of [rows, pixels, channels]: 5HD, 5HD with a packed ragged block, or pixel-major; an input may be a ring
    of rows, and two batch entries lie apart where there is room."""
    height, width, channels = shape
    family = rng.choice(["blocked", "ragged", "pixel-major"])
    skew = 0 if aligned else int(rng.integers(0, 8))
    is_unsigned = rng.random() < 0.2
    zero_point = int(rng.integers(0, 256) if is_unsigned else rng.integers(-128, 128))
    fields = {"base": sram(offset + skew), "type": int(is_unsigned), "zero_point": zero_point, "c0": LANES}
    if family == "pixel-major":
        pixel = -(-channels // 8) * 8 if aligned else channels
        fields |= {"pixel": pixel, "row": width * pixel, "block": LANES}
    else:
        fields |= {"pixel": LANES, "row": LANES * width, "block": LANES * width * height}
        rest = channels % LANES
        if family == "ragged" and rest and not aligned:
            fields |= {"last_pixel": rest, "last_row": rest * width}
    n_bytes = height * width * -(-channels // 8) * 8
    fields["batch"] = n_bytes if n_bytes <= BATCH_BYTES else 0
    if prefix == "ifm" and aligned and rng.random() < 0.2:
        fields["ring"] = int(rng.integers(1, height + 1))
    return {f"{prefix}_{name}": value for name, value in fields.items()}


def window(rng: Random, kernel: int, length: int) -> tuple[Fields, int]:
    """Kernel, stride, dilation and padding of one axis, and the output's length; below 1 when there is none."""
    stride, dilation = int(rng.integers(1, 4)), int(rng.choice([1, 1, 1, 2]))
    reach = (kernel - 1) * dilation + 1
    before, after = (int(rng.integers(0, kernel)) for _ in range(2))
    fields = {"kernel": kernel, "stride": stride, "dilation": dilation, "pad": before}
    return fields, (length + before + after - reach) // stride + 1


def draw(rng: Random, kind: str, *, aligned: bool) -> Case | None:
    """A case of `kind` (conv, stem, depthwise); None when the draw gives no legal one."""
    height, width = (int(n) for n in rng.integers(1, 15, 2))
    limits = {"conv": (1, 49), "stem": (1, 5), "depthwise": (1, 41)}[kind]
    channels = int(rng.integers(*limits))
    kernels = [3, 5, 7] if kind == "stem" else [1, 1, 3, 3, 5, 2]
    rows, out_h = window(rng, int(rng.choice(kernels)), height)
    pixels, out_w = window(rng, int(rng.choice(kernels)), width)
    if out_h < 1 or out_w < 1:
        return None
    if kind == "stem":
        pixels["dilation"] = rows["dilation"]
    outputs = channels if kind == "depthwise" else int(rng.integers(1, 49))
    names = {"pad": ("pad_top", "pad_left")}
    layer: Fields = {"ifm_height": height, "ifm_width": width, "ifm_channels": channels, "ofm_channels": outputs}
    for name in ("kernel", "stride", "dilation", "pad"):
        first, second = names.get(name, (f"{name}_h", f"{name}_w"))
        layer |= {first: rows[name], second: pixels[name]}
    layer |= tensor(rng, "ifm", IFM, (height, width, channels), aligned=aligned)
    layer |= tensor(rng, "ofm", OFM, (out_h, out_w, outputs), aligned=aligned)
    layer |= output_stage(rng, layer["ofm_type"] == 0, (out_h, out_w, outputs), aligned=aligned)
    layer |= {
        "block_h": int(rng.integers(1, out_h + 1)),
        "block_w": int(rng.integers(1, out_w + 1)),
        "block_c": int(rng.integers(1, outputs // 8 + 2)),
    }
    weights = sram(WEIGHTS + (0 if aligned else int(rng.integers(0, 8))))
    values = {
        "n": int(rng.integers(0, 2)),
        **region(rng, (out_h, out_w, outputs)),
        "k": 0,
        "k_channels": 1,
        "weights": weights,
    }
    if kind != "depthwise":
        values |= input_channels(rng, channels)
    mnemonic = "mac.depthwise" if kind == "depthwise" else "mac.conv"
    case = Case(mnemonic, values, layer)
    return case if _is_legal(case, height * width * channels, out_h * out_w * outputs) else None


def region(rng: Random, shape: tuple[int, int, int]) -> Fields:
    """The whole output, or a part of it that begins at a channel block."""
    if rng.random() < 0.5:
        return {"y": 0, "x": 0, "c": 0, "height": shape[0], "width": shape[1], "channels": shape[2]}
    y, x = (int(rng.integers(0, n)) for n in shape[:2])
    c = LANES * int(rng.integers(0, -(-shape[2] // LANES)))
    extents = [int(rng.integers(1, n + 1)) for n in (shape[0] - y, shape[1] - x, shape[2] - c)]
    return {"y": y, "x": x, "c": c, "height": extents[0], "width": extents[1], "channels": extents[2]}


def input_channels(rng: Random, channels: int) -> Fields:
    """All input channels, or some that begin at a channel block."""
    if rng.random() < 0.7:
        return {"k": 0, "k_channels": channels}
    k = LANES * int(rng.integers(0, -(-channels // LANES)))
    return {"k": k, "k_channels": int(rng.integers(1, channels - k + 1))}


def output_stage(rng: Random, is_signed: bool, ofm: tuple[int, int, int], *, aligned: bool) -> Fields:
    """Both roundings, with and without a table (of signed values) and a residual operand."""
    use_table, use_residual = int(is_signed and rng.random() < 0.4), int(rng.random() < 0.4)
    middle, form = 0 if is_signed else 128, int(rng.integers(0, 4))
    layer = {
        "double_round": int(rng.integers(0, 2)),
        "use_table": use_table,
        "use_residual": use_residual,
        "clamp_low": middle - int(rng.integers(50, 129)),
        "clamp_high": middle + int(rng.integers(50, 128)),
        "scale_form": form,
        "scales": sram(SCALES + SCALES_BYTES * form),
        "table": sram(TABLE),
    }
    if use_residual:
        layer |= tensor(rng, "ifm2", RESIDUAL, ofm, aligned=aligned)
        layer |= {"mid_zero_point": middle + int(rng.integers(-128, 128))}
        layer |= {"left_shift": 20, "mid_low": middle - 128, "mid_high": middle + 127}
        for name in ("1", "2", "out"):
            layer |= {f"multiplier_{name}": int(rng.integers(1 << 30, 1 << 31)), f"shift_{name}": 31}
        layer["shift_out"] = 49
    return layer


def _is_legal(case: Case, input_bytes: int, output_bytes: int) -> bool:
    v, d = case.values, case.layer
    columns = {name: np.array([value], np.int64) for name, value in {**v, **d}.items()}
    columns["opcode"] = np.array([0x21 if case.mnemonic == "mac.depthwise" else 0x20], np.int64)
    n_weights = d["kernel_h"] * d["kernel_w"] * v["k_channels"] * v["channels"]
    steps = v["height"] * v["width"] * n_weights // 64
    small = input_bytes <= 2000 and output_bytes <= 1400 and n_weights <= 0x4F00 and steps <= 6000
    return small and bool(block_fits(columns, TARGET)[0])


def memory(rng: Random) -> Bytes:
    """Random bytes; from SCALES on constants of 64 channels in every form, which keep most outputs off the clamps."""
    result = rng.integers(0, 256, SRAM_BYTES, dtype=np.uint8)
    for form, largest in enumerate((1 << 27, 1 << 11, 1 << 19, 1 << 27)):
        limit = np.where(np.arange(64) % 8 == 0, largest, min(largest, 5000))
        bias, multiplier = rng.integers(-limit, limit), rng.integers(1 << 30, 1 << 31, 64)
        table = records(form, bias, multiplier, rng.integers(38, 44, 64))
        start = SCALES + SCALES_BYTES * form
        result[start : start + len(table)] = np.frombuffer(table, np.uint8)
    return result


def program_of(cases: list[Case]) -> Program:
    """The cases one after the other, without conditions."""
    assembly = Assembly("edge-64")
    for case in cases:
        assembly.add(case.mnemonic, case.values, case.layer)
    return load(assembly.container())


def expected_sram(program: Program, before: Bytes) -> Bytes:
    """Every byte of sram after the simulator has run the program."""
    # Not strict: the shapes overwrite each other on purpose, and the whole of sram is the output.
    result: Bytes = Machine(program).run({"sram": before})["sram"]
    return result


def job_of(program: Program, before: Bytes) -> Job:
    """The whole program on the core."""
    return Job(program, before, len(program.code))
