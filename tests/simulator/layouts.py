"""Hypothesis strategies: access records of every family of layouts, and layers around them."""

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.simulator.assemble import sram

Fields = dict[str, int]

BASES = {"ifm": 0x0000, "ifm2": 0x5000, "ofm": 0xA000}
"""Operands lie apart; each has 20 KiB."""


@dataclass(frozen=True)
class Shape:
    """Rows, pixels and channels of a tensor with two batch entries."""

    height: int
    width: int
    channels: int


@st.composite
def access_records(draw: st.DrawFn, prefix: str, shape: Shape, *, rings: bool = True, uint8: bool = True) -> Fields:
    family = draw(st.sampled_from(["pixel-major", "blocked", "ragged", "planes"]))
    c0 = 1 if family == "planes" else draw(st.sampled_from([4, 8, 16]))
    ring = draw(st.integers(0, shape.height)) if rings else 0
    rows = ring or shape.height
    pixel = shape.channels + draw(st.integers(0, 5)) if family == "pixel-major" else c0
    row = shape.width * pixel + draw(st.integers(0, 3))
    blocks = -(-shape.channels // c0)
    block = c0 if family == "pixel-major" else rows * row
    ragged = shape.channels % c0 if family == "ragged" else 0
    is_signed = draw(st.booleans()) or not uint8
    fields = {
        "base": sram(BASES[prefix] + draw(st.integers(0, 7))),
        "pixel": pixel,
        "row": row,
        "block": block,
        "batch": rows * row * (1 if family == "pixel-major" else blocks),
        "last_pixel": ragged,
        "last_row": ragged and shape.width * ragged,
        "ring": ring,
        "type": 0 if is_signed else 1,
        "zero_point": draw(st.integers(-128, 127) if is_signed else st.integers(0, 255)),
        "c0": c0,
    }
    return {f"{prefix}_{name}": value for name, value in fields.items()}


@st.composite
def second_inputs(draw: st.DrawFn, shape: Shape) -> Fields:
    fields = draw(access_records("ifm2", shape))
    repeated = draw(st.sampled_from(["nothing", "pixels", "everything"]))
    if repeated != "nothing":
        fields |= {"ifm2_pixel": 0, "ifm2_row": 0, "ifm2_batch": 0, "ifm2_last_pixel": 0, "ifm2_last_row": 0}
    if repeated == "everything":
        fields |= {"ifm2_c0": 1, "ifm2_block": 0}
    return fields


@st.composite
def regions(draw: st.DrawFn, shape: Shape, *, whole: bool = False) -> Fields:
    if whole:
        y = x = c = 0
        height, width, channels = shape.height, shape.width, shape.channels
    else:
        y, x, c = (draw(st.integers(0, n - 1)) for n in (shape.height, shape.width, shape.channels))
        height, width = draw(st.integers(1, shape.height - y)), draw(st.integers(1, shape.width - x))
        channels = draw(st.integers(1, shape.channels - c))
    n = draw(st.integers(0, 1))
    return {"n": n, "y": y, "x": x, "c": c, "height": height, "width": width, "channels": channels}


@st.composite
def shapes(draw: st.DrawFn, largest: int = 6, channels: int = 37) -> Shape:
    return Shape(draw(st.integers(1, largest)), draw(st.integers(1, largest)), draw(st.integers(1, channels)))


@st.composite
def windows(draw: st.DrawFn, ifm: Shape) -> tuple[Fields, Shape | None]:
    """Kernel, stride, dilation and padding, and the output that they give; None when there is none."""
    fields: Fields = {"ifm_height": ifm.height, "ifm_width": ifm.width, "ifm_channels": ifm.channels}
    lengths = []
    for name, pad, length in (("h", "pad_top", ifm.height), ("w", "pad_left", ifm.width)):
        kernel, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        before, after = draw(st.integers(0, kernel - 1)), draw(st.integers(0, kernel - 1))
        fields |= {f"kernel_{name}": kernel, f"stride_{name}": stride, f"dilation_{name}": dilation, pad: before}
        lengths.append((length + before + after - (kernel - 1) * dilation - 1) // stride + 1)
    if min(lengths) < 1:
        return fields, None
    return fields, Shape(lengths[0], lengths[1], ifm.channels)


multipliers = st.sampled_from([0, 1 << 30, (1 << 31) - 1]) | st.integers(1 << 30, (1 << 31) - 1)


@st.composite
def rescales(draw: st.DrawFn) -> Fields:
    """Factors of about 2^-8 to 2^2, multipliers at their ends included."""
    fields: Fields = {}
    for name in ("1", "2", "out"):
        fields[f"multiplier_{name}"] = draw(multipliers)
        fields[f"shift_{name}"] = draw(st.integers(29, 39))
    return fields


@st.composite
def clamps(draw: st.DrawFn, is_signed: bool, low: str = "clamp_low", high: str = "clamp_high") -> Fields:
    least, most = (-128, 127) if is_signed else (0, 255)
    bounds = sorted(draw(st.tuples(st.integers(least, most), st.integers(least, most))))
    return {low: bounds[0], high: bounds[1]} if draw(st.booleans()) else {low: least, high: most}
