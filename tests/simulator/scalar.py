"""A slow model of the instructions, one element at a time, written from the docs of the tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from isa import arithmetic
from isa.arithmetic import Addition, Rescale

RECORD_BYTES = (10, 6, 7, 8)
"""Of a channel's constants, by `scale_form`."""

Fields = Mapping[str, int]
Point = tuple[int, int, int, int]


@dataclass
class ScalarMachine:
    """Flash and sram as plain bytes."""

    flash: bytes
    sram: bytearray
    lanes: int = 16

    def byte(self, address: int) -> int:
        return (self.flash if address >> 30 == 0 else self.sram)[address & ((1 << 30) - 1)]

    def number(self, address: int, n_bytes: int, signed: bool) -> int:
        return int.from_bytes(bytes(self.byte(address + i) for i in range(n_bytes)), "little", signed=signed)

    def place(self, layer: Fields, operand: str, point: Point) -> int:
        n, y, x, c = point
        field = {name.removeprefix(f"{operand}_"): layer[name] for name in layer if name.startswith(f"{operand}_")}
        channels = layer["ifm_channels"] if operand == "ifm" else layer["ofm_channels"]
        b, j = c // field["c0"], c % field["c0"]
        r = y % field["ring"] if field["ring"] else y
        row, pixel = field["row"], field["pixel"]
        if channels % field["c0"] and b == channels // field["c0"]:
            row, pixel = field["last_row"] or row, field["last_pixel"] or pixel
        return field["base"] + n * field["batch"] + b * field["block"] + r * row + x * pixel + j

    def read(self, layer: Fields, operand: str, point: Point) -> int:
        return self.number(self.place(layer, operand, point), 1, layer[f"{operand}_type"] == 0)

    def write(self, layer: Fields, point: Point, value: int) -> None:
        self.sram[self.place(layer, "ofm", point) & ((1 << 30) - 1)] = value & 255

    def execute(self, mnemonic: str, values: Fields, layer: Fields) -> None:
        kind, name = mnemonic.split(".")
        compute = getattr(self, f"mac_{name}" if kind == "mac" else f"vec_{name}")
        results = [(point, compute(values, layer, point)) for point in region(values)]
        for point, value in results:
            self.write(layer, point, value)

    def taps(self, layer: Fields, point: Point) -> Iterator[tuple[int, int, int, bool]]:
        """(tap number, row, pixel, inside) of the window of an output point."""
        for i in range(layer["kernel_h"]):
            for j in range(layer["kernel_w"]):
                y = point[1] * layer["stride_h"] - layer["pad_top"] + i * layer["dilation_h"]
                x = point[2] * layer["stride_w"] - layer["pad_left"] + j * layer["dilation_w"]
                inside = 0 <= y < layer["ifm_height"] and 0 <= x < layer["ifm_width"]
                yield i * layer["kernel_w"] + j, y, x, inside

    def mac_conv(self, values: Fields, layer: Fields, point: Point) -> int:
        total = 0
        for tap, y, x, inside in self.taps(layer, point):
            for k in range(values["k_channels"]):
                taken = (
                    self.read(layer, "ifm", (point[0], y, x, values["k"] + k)) if inside else layer["ifm_zero_point"]
                )
                row = tap * values["k_channels"] + k
                products = layer["kernel_h"] * layer["kernel_w"] * values["k_channels"]
                total += (taken - layer["ifm_zero_point"]) * self.weight(values, point, row, products)
        return self.output_stage(layer, point, total)

    def mac_depthwise(self, values: Fields, layer: Fields, point: Point) -> int:
        total = 0
        for tap, y, x, inside in self.taps(layer, point):
            if inside:
                taken = self.read(layer, "ifm", (point[0], y, x, point[3])) - layer["ifm_zero_point"]
                total += taken * self.weight(values, point, tap, layer["kernel_h"] * layer["kernel_w"])
        return self.output_stage(layer, point, total)

    def weight(self, values: Fields, point: Point, row: int, products: int) -> int:
        group, lane = divmod(point[3] - values["c"], self.lanes)
        width = min(self.lanes, values["channels"] - group * self.lanes)
        return self.number(values["weights"] + group * self.lanes * products + row * width + lane, 1, True)

    def output_stage(self, layer: Fields, point: Point, total: int) -> int:
        bias, multiplier, shift = self.scale(layer, point[3])
        double = bool(layer["double_round"])
        added = bool(layer["use_residual"])
        zero_point = layer["mid_zero_point"] if added else layer["ofm_zero_point"]
        low, high = (layer["mid_low"], layer["mid_high"]) if added else (layer["clamp_low"], layer["clamp_high"])
        value = int(arithmetic.requantize(total + bias, multiplier, shift, zero_point, low, high, double))
        if layer["use_table"]:
            value = self.number(layer["table"] + value + 128, 1, layer["ofm_type"] == 0)
        if added:
            value = self.sum(layer, point, value, layer["mid_zero_point"], 1)
        return value

    def scale(self, layer: Fields, channel: int) -> tuple[int, int, int]:
        """Bias, multiplier and shift."""
        n_bytes = RECORD_BYTES[layer["scale_form"]]
        at = layer["scales"] + n_bytes * channel
        if n_bytes == 10:
            return self.number(at, 4, True), self.number(at + 4, 4, True), self.number(at + 8, 1, False)
        bias, low = divmod(self.number(at, n_bytes, True), 1 << 36)
        return bias, (1 << 30) + low % (1 << 30), low >> 30

    def sum(self, layer: Fields, point: Point, first: int, first_zero_point: int, sign: int) -> int:
        second = self.read(layer, "ifm2", point)
        factors = [Rescale(layer[f"multiplier_{i}"], layer[f"shift_{i}"]) for i in ("1", "2", "out")]
        zeros = (first_zero_point, layer["ifm2_zero_point"], layer["ofm_zero_point"])
        constants = Addition(
            layer["left_shift"], factors[0], factors[1], factors[2], *zeros, layer["clamp_low"], layer["clamp_high"]
        )
        operation = arithmetic.add if sign > 0 else arithmetic.sub
        return int(operation(np.array(first), np.array(second), constants))

    def vec_add(self, values: Fields, layer: Fields, point: Point) -> int:
        return self.sum(layer, point, self.read(layer, "ifm", point), layer["ifm_zero_point"], 1)

    def vec_sub(self, values: Fields, layer: Fields, point: Point) -> int:
        return self.sum(layer, point, self.read(layer, "ifm", point), layer["ifm_zero_point"], -1)

    def vec_mul(self, values: Fields, layer: Fields, point: Point) -> int:
        product = self.read(layer, "ifm", point) - layer["ifm_zero_point"]
        product *= self.read(layer, "ifm2", point) - layer["ifm2_zero_point"]
        value = int(arithmetic.rescale(product, layer["multiplier_out"], layer["shift_out"]))
        return clamp(layer, value + layer["ofm_zero_point"])

    def vec_table(self, values: Fields, layer: Fields, point: Point) -> int:
        return self.byte(layer["table"] + self.read(layer, "ifm", point) + 128)

    def vec_copy(self, values: Fields, layer: Fields, point: Point) -> int:
        return self.read(layer, "ifm", point)

    def vec_resize(self, values: Fields, layer: Fields, point: Point) -> int:
        n, y, x, c = point
        return self.read(layer, "ifm", (n, y // layer["stride_h"], x // layer["stride_w"], c))

    def vec_maxpool(self, values: Fields, layer: Fields, point: Point) -> int:
        places = [(point[0], y, x, point[3]) for _, y, x, inside in self.taps(layer, point) if inside]
        return clamp(layer, max(self.read(layer, "ifm", place) for place in places))

    def vec_avgpool(self, values: Fields, layer: Fields, point: Point) -> int:
        total = count = 0
        for _, y, x, inside in self.taps(layer, point):
            if inside:
                total += self.read(layer, "ifm", (point[0], y, x, point[3]))
            elif layer["count_pad"]:
                total += layer["ifm_zero_point"]
            count += inside or layer["count_pad"]
        return clamp(layer, half_away(total, count))

    def vec_mean(self, values: Fields, layer: Fields, point: Point) -> int:
        total = 0
        for y in range(layer["ifm_height"]):
            for x in range(layer["ifm_width"]):
                total += self.read(layer, "ifm", (point[0], y, x, point[3])) - layer["ifm_zero_point"]
        scaled = int(arithmetic.rescale(total, layer["multiplier_out"], layer["shift_out"]))
        return clamp(layer, half_away(scaled, layer["ifm_height"] * layer["ifm_width"]) + layer["ofm_zero_point"])

    def vec_softmax(self, values: Fields, layer: Fields, point: Point) -> int:
        pixel = [self.read(layer, "ifm", (*point[:3], c)) for c in range(layer["ifm_channels"])]
        row = arithmetic.softmax(np.array(pixel), layer["multiplier_1"], layer["left_shift"], 0)
        return int(row[point[3]])


def region(values: Fields) -> Iterator[Point]:
    for y in range(values["y"], values["y"] + values["height"]):
        for x in range(values["x"], values["x"] + values["width"]):
            for c in range(values["c"], values["c"] + values["channels"]):
                yield values["n"], y, x, c


def clamp(layer: Fields, value: int) -> int:
    return min(max(value, layer["clamp_low"]), layer["clamp_high"])


def half_away(total: int, count: int) -> int:
    magnitude = (abs(total) + count // 2) // count
    return magnitude if total > 0 else -magnitude
