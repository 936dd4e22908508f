"""Random layers: shapes, layouts and output blocks that fit the buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isa.descriptors import ElementType, Memory, address
from isa.target import Target

Values = dict[str, int]

FLASH_BYTES = 1 << 16
SRAM_BYTES = 1 << 18


@dataclass(frozen=True)
class Draw:
    """Random choices for one target."""

    rng: np.random.Generator
    target: Target

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def one(self, *choices: int) -> int:
        return choices[self.number(0, len(choices) - 1)]

    def is_true(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def place(self, memory: Memory, grain: int) -> int:
        """An address with this alignment, well inside its memory."""
        limit = FLASH_BYTES if memory is Memory.FLASH else SRAM_BYTES
        first = 1 << 12
        return address(memory, first + grain * self.number(0, (limit // 2 - first) // grain))

    def data_memory(self) -> Memory:
        """Where a tensor lies: dram only now and then."""
        return Memory.DRAM if self.target.architecture.has_dram and self.is_true(0.1) else Memory.SRAM

    def constant_memory(self) -> Memory:
        return Memory.FLASH if self.is_true(0.2) else Memory.SRAM


def tensor(draw: Draw, prefix: str, height: int, width: int, channels: int, element: ElementType) -> Values:
    """An access record: channel blocks apart (5HD, sometimes with a tight last block) or pixels whole (NHWC)."""
    c0, size = draw.target.architecture.channel_block, 2 if element is ElementType.INT16 else 1
    ring = draw.number(1, height) if draw.is_true(0.1) else 0
    values = {"type": int(element), "c0": c0, "ring": ring, "base": draw.place(draw.data_memory(), draw.one(1, 8, 16))}
    if draw.is_true(0.5):
        pixel = size * draw.one(channels, channels, -(-channels // 8) * 8, channels + draw.number(0, 9))
        values |= {"pixel": pixel, "row": pixel * width, "block": c0 * size}
    else:
        pixel = c0 * size
        values |= {"pixel": pixel, "row": pixel * width, "block": pixel * width * (ring or height)}
        if channels % c0 and draw.is_true(0.5):
            values |= {"last_pixel": channels % c0 * size, "last_row": channels % c0 * size * width}
    if prefix == "ifm2" and draw.is_true(0.2):
        values |= {"pixel": 0, "row": 0}
    return {f"{prefix}_{name}": value for name, value in values.items()}


def random_layer(draw: Draw, kind: str) -> Values:
    """The descriptor of a layer; `kind` is the mnemonic of its instructions."""
    height, width = draw.number(1, 24), draw.number(1, 24)
    channels = draw.one(draw.number(1, 80), draw.one(8, 16, 32, 48, 64))
    element = ElementType.INT16 if draw.is_true(0.08) else ElementType.INT8
    v = {"ifm_height": height, "ifm_width": width, "ifm_channels": channels, "ofm_channels": channels}
    if kind == "mac.conv":
        v["ofm_channels"] = draw.one(draw.number(1, 80), draw.one(8, 16, 32, 64))
    is_window = kind.startswith("mac.") or kind in ("vec.maxpool", "vec.avgpool")
    if is_window:
        kernel = draw.one(1, 3, 3, draw.number(1, 5))
        v |= {"kernel_h": kernel, "kernel_w": draw.one(kernel, kernel, draw.number(1, 5))}
        v |= {"stride_h": draw.one(1, 1, 2, 3), "stride_w": draw.one(1, 1, 2)}
        v |= {"pad_top": draw.number(0, v["kernel_h"] - 1), "pad_left": draw.number(0, v["kernel_w"] - 1)}
        v |= {"dilation_h": draw.one(1, 1, 1, 1, 2)}
    elif kind == "vec.resize":
        v |= {"stride_h": draw.number(1, 3), "stride_w": draw.number(1, 3)}
    out_h, out_w = output_size(kind, v)
    if kind == "vec.bilinear":
        v |= {"multiplier_1": _scale(height, out_h), "multiplier_2": _scale(width, out_w)}
        v |= {"mid_low": draw.one(0, (v["multiplier_1"] - 1024) // 2), "mid_high": draw.one(0, 0, 100)}
    v |= tensor(draw, "ifm", height, width, channels, element)
    v |= tensor(draw, "ofm", out_h, out_w, v["ofm_channels"], element)
    v |= tensor(draw, "ifm2", out_h, out_w, v["ofm_channels"], element)
    v |= {"scales": draw.place(draw.constant_memory(), 2), "table": draw.place(draw.constant_memory(), 8)}
    if kind.startswith("mac."):
        v |= {"use_table": int(draw.is_true(0.2)), "use_residual": int(draw.is_true(0.2))}
        v |= {"scale_form": draw.number(0, 3)}
    return v | _blocks(draw, v, out_h, out_w)


def _scale(n_inputs: int, n_outputs: int) -> int:
    """Input positions for each output position, in 1/1024."""
    return (1024 * n_inputs + n_outputs // 2) // n_outputs


def output_size(kind: str, v: Values) -> tuple[int, int]:
    """Rows and pixels of the output of a layer."""
    if kind == "vec.mean":
        return 1, 1
    if kind == "vec.bilinear":
        return 2 * v["ifm_height"], v["ifm_width"] * 3 // 2 + 1
    if kind == "vec.resize":
        return v["ifm_height"] * v["stride_h"], v["ifm_width"] * v["stride_w"]
    return -(-v["ifm_height"] // v.get("stride_h", 1)), -(-v["ifm_width"] // v.get("stride_w", 1))


def _blocks(draw: Draw, v: Values, out_h: int, out_w: int) -> Values:
    """Block sizes, halved until half of each buffer holds them."""
    block_h, block_w = draw.number(min(4, out_h), min(out_h, 32)), draw.number(min(4, out_w), min(out_w, 32))
    lanes = draw.target.architecture.cout_lanes
    block_c = lanes * draw.number(1, 4)
    while not _fits(draw.target, v, block_h, block_w, block_c):
        if block_c > lanes:
            block_c = max(lanes, block_c // 2 // lanes * lanes)
        elif block_h >= block_w:
            block_h = (block_h + 1) // 2
        else:
            block_w = (block_w + 1) // 2
    return {"block_h": block_h, "block_w": block_w, "block_c": block_c // 8}


def _fits(target: Target, v: Values, block_h: int, block_w: int, block_c: int) -> bool:
    reach = [
        (n - 1) * v.get(f"stride_{axis}", 1) + (v.get(f"kernel_{axis}", 1) - 1) * v.get(f"dilation_{axis}", 1) + 1
        for n, axis in ((block_h, "h"), (block_w, "w"))
    ]
    element_bytes = 2 if v["ifm_type"] == ElementType.INT16 else 1
    is_small = reach[0] * reach[1] * v["ifm_c0"] * element_bytes * 2 <= target.costs.input_buffer_bytes
    return is_small and block_h * block_w * block_c * 8 <= target.costs.accumulator_bytes
