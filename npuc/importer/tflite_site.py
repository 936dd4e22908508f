"""What an import rule sees of one TFLite operator: checked operands, options and the builder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isa.arithmetic import quantize
from npuc.graph.types import Array, QuantParams
from npuc.importer.tflite_builder import TfliteBuilder
from npuc.importer.tflite_model import TfliteOperator, TfliteTensor
from npuc.importer.tflite_storage import quant_of
from npuc.ops.window import Window

_ACTIVATIONS = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}
_BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "NONE": (None, None), "RELU": (0.0, None), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0)
}  # fmt: skip


class Unsupported(Exception):
    """The operator is well-formed, but no integer operator of npuc means the same."""


@dataclass(frozen=True)
class Site:
    """One operator. Malformed operands raise ValueError, unsupported ones Unsupported, both with one line."""

    builder: TfliteBuilder
    operator: TfliteOperator

    def has(self, position: int) -> bool:
        """Whether input `position` is given."""
        return position < len(self.operator.inputs) and self.operator.inputs[position] >= 0

    def input(self, position: int) -> TfliteTensor:
        """Input `position`, which must be given."""
        if not self.has(position):
            raise ValueError(f"input {position} is missing")
        return self.builder.model.tensors[self.operator.inputs[position]]

    @property
    def output(self) -> TfliteTensor:
        """The only output."""
        if len(self.operator.outputs) != 1:
            raise ValueError(f"{len(self.operator.outputs)} outputs, need 1")
        return self.builder.model.tensors[self.operator.outputs[0]]

    @property
    def image(self) -> TfliteTensor:
        """Input 0, which must be [n,h,w,c]."""
        tensor = self.input(0)
        if len(tensor.shape) != 4:
            raise ValueError(f"input has rank {len(tensor.shape)}, need 4")
        return tensor

    @property
    def outputs(self) -> tuple[TfliteTensor, ...]:
        """All outputs."""
        return tuple(self.builder.model.tensors[index] for index in self.operator.outputs)

    def quant(self, tensor: TfliteTensor) -> QuantParams:
        """Quantization of an activation as int8; uint8 values are stored less 128."""
        if tensor.dtype not in ("INT8", "UINT8"):
            raise Unsupported(f"{tensor.name} is {tensor.dtype}, only INT8 and UINT8 activations are supported")
        if min(tensor.shape, default=1) < 1:
            raise ValueError(f"{tensor.name} is empty: {list(tensor.shape)}")
        quant = quant_of(tensor)
        if quant is None:
            raise ValueError(f"{tensor.name} has {len(tensor.scales)} scales, need one above 0")
        if not -128 <= quant.zero_point <= 127:
            raise ValueError(f"{tensor.name} has zero point {tensor.zero_points[0]}, outside the range of its type")
        return quant

    def require_same_quant(self) -> QuantParams | None:
        """Quantization that the output shares with input 0: the operator copies stored values."""
        first, second = quant_of(self.input(0)), quant_of(self.output)
        if self.input(0).dtype != self.output.dtype:
            raise ValueError(f"input is {self.input(0).dtype}, output {self.output.dtype}")
        if first is not None and second is not None:
            is_close = abs(first.scale - second.scale) <= 1e-6 and first.zero_point == second.zero_point
            if not is_close:
                raise Unsupported("input and output differ in scale or zero point")
        return first

    def constant(self, position: int, role: str) -> Array:
        """Contents of input `position`, in TFLite's axis order."""
        data = self.input(position).data
        if data is None:
            raise Unsupported(f"{role} ({self.input(position).name}) depend on the inputs, constants are needed")
        return data

    def integers(self, position: int, role: str) -> tuple[int, ...]:
        """Contents of a constant vector of int32 or int64."""
        data = self.constant(position, role)
        if data.dtype not in (np.int32, np.int64):
            raise ValueError(f"{role} are {data.dtype.name}, need int32 or int64")
        return tuple(int(value) for value in data.reshape(-1))

    def option(self, name: str, default: float | None = None) -> int | float | bool:
        """An option, which must be there unless there is a default."""
        value = self.operator.options.get(name, default)
        if value is None or isinstance(value, str):
            raise ValueError("its options are missing")
        return value

    def axis(self, number: int, rank: int) -> int:
        """An axis counted from the front; `number` may count from the end."""
        if not -rank <= number < rank:
            raise ValueError(f"axis {number} of a tensor of rank {rank}")
        return number % rank

    def size(self, name: str) -> int:
        """A positive option: a stride, a dilation or a kernel size."""
        value = int(self.option(name))
        if not 1 <= value < 1 << 15:
            raise ValueError(f"{name} is {value}, need 1..32767")
        return value

    def clamp(self) -> tuple[int, int]:
        """int8 range that the fused activation leaves, rounded in float32 as TFLite does."""
        quant = self.quant(self.output)
        number = int(self.option("FusedActivationFunction", 0))
        name = _ACTIVATIONS.get(number, f"activation {number}")
        if name not in _BOUNDS:
            raise Unsupported(f"fused {name}")
        low, high = (
            default if bound is None else int(quantize(bound, quant.scale, quant.zero_point, np.int8, half_even=False))
            for bound, default in zip(_BOUNDS[name], (-128, 127), strict=True)
        )
        return low, high

    def window(self, kernel: tuple[int, int], dilation: tuple[int, int] = (1, 1)) -> Window:
        """Window on the rows and columns of input 0 [n,h,w,c] with TFLite's SAME or VALID padding."""
        stride = self.size("StrideH"), self.size("StrideW")
        is_same = self.option("Padding") == 0
        pads = [same_pads(*sizes) if is_same else (0, 0)
                for sizes in zip(self.image.shape[1:3], kernel, stride, dilation, strict=True)]  # fmt: skip
        return Window(kernel, stride, dilation, (pads[0][0], pads[1][0], pads[0][1], pads[1][1]))


def same_pads(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and after `size` pixels such that the output has ceil(size / stride); the odd pixel is after."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


Rule = Callable[[Site], None]
"""Adds the nodes of one operator to the graph."""
