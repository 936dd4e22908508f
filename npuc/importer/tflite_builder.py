"""The graph under construction: every TFLite tensor in its own axis order and, where an operator wants it, NCHW.

Compute operators work on rank-4 values: a tensor [n,h,w,c] as NCHW, one of another rank as [rows,c,1,1] with its last
axis as channels. Either form is made from the other on demand, once, and views of views collapse, so chains of
convolutions and dense layers have no transposes between them. Views that nothing reads are dropped at the end.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import numpy as np

from npuc.errors import ImportFailure
from npuc.graph.graph import Graph, Node, type_of_array, verify
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.importer.tflite_model import DTYPES, STAGE, TfliteModel, TfliteTensor
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose

TO_NCHW = (0, 3, 1, 2)
TO_NHWC = (0, 2, 3, 1)


class TfliteBuilder:
    """Collects nodes, values and constants; `label` is the TFLite operator that is being imported."""

    def __init__(self, model: TfliteModel, name: str) -> None:
        self.model = model
        self.name = name
        self.label = ""
        self.values: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self.nodes: dict[str, Node] = {}
        self._plain: dict[int, str] = {}
        self._logical: dict[int, str] = {}
        self._by_content: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._used: set[str] = set()
        self._boundary = {*model.inputs, *model.outputs}
        self.inputs = tuple(self._input(model.tensors[index]) for index in model.inputs)

    def _input(self, tensor: TfliteTensor) -> str:
        if tensor.index in self._plain or tensor.data is not None:
            raise ImportFailure(f"graph input {tensor.name} is listed twice or is a constant", stage=STAGE)
        self.declare(tensor)
        return self._plain[tensor.index]

    def declare(self, tensor: TfliteTensor) -> None:
        """A value without a producer: a graph input."""
        if tensor.dtype not in DTYPES or min(tensor.shape, default=1) < 1:
            raise ImportFailure(f"tensor {tensor.name} is {tensor.dtype}{list(tensor.shape)}, which no value can be",
                                stage=STAGE)  # fmt: skip
        name = self._unique(tensor.name)
        self.values[name] = TensorType(DTYPES[tensor.dtype], tensor.shape, quant_of(tensor))
        self._plain[tensor.index] = name

    def declare_opaque(self, tensor: TfliteTensor) -> None:
        """The output of an operator that cannot be imported, so that what reads it can be judged, too."""
        name = self._unique(tensor.name)
        shape = tuple(max(size, 1) for size in tensor.shape)
        self.values[name] = TensorType(DTYPES.get(tensor.dtype, "int8"), shape, quant_of(tensor))
        self._plain[tensor.index] = name

    def is_defined(self, tensor: TfliteTensor) -> bool:
        """Whether the tensor is a graph input, a constant, or was written by an operator."""
        return tensor.data is not None or tensor.index in self._plain or tensor.index in self._logical

    def plain(self, tensor: TfliteTensor) -> str:
        """Value of the tensor in TFLite's axis order."""
        if tensor.index not in self._plain:
            if tensor.index in self._logical:
                value, name = self._logical[tensor.index], self._name(tensor, is_plain=True)
                view = self._from_logical(value, tensor.shape, name)
            elif tensor.data is not None:
                view = self.constant(tensor.name, tensor.data, quant_of(tensor))
            else:
                raise ImportFailure(f"{self.label} reads {tensor.name} before an operator writes it", stage=STAGE,
                                    hint="order the operators so that none depends on a later one")  # fmt: skip
            self._plain[tensor.index] = view
        return self._plain[tensor.index]

    def logical(self, tensor: TfliteTensor) -> str:
        """Value of the tensor as compute operators want it: NCHW, or [rows,c,1,1] for a rank other than 4."""
        if tensor.index not in self._logical:
            value, name = self.plain(tensor), self._name(tensor, is_plain=False)
            shape = logical_shape(tensor.shape)
            is_image = len(tensor.shape) == 4
            self._logical[tensor.index] = (
                self.transpose(value, TO_NCHW, name) if is_image else self.reshape(value, shape, name)
            )
        return self._logical[tensor.index]

    def _from_logical(self, value: str, shape: tuple[int, ...], name: str) -> str:
        return self.transpose(value, TO_NHWC, name) if len(shape) == 4 else self.reshape(value, shape, name)

    def emit_logical(self, tensor: TfliteTensor, op: Op, *inputs: str) -> None:
        """Write the tensor by an operator whose result is its logical form."""
        value = self.emit(op, inputs, self._name(tensor, is_plain=False), quant_of(tensor))
        self._require_shape(tensor, value, logical_shape(tensor.shape))
        self._logical[tensor.index] = value

    def set_plain(self, tensor: TfliteTensor, value: str) -> None:
        """The tensor is this value, which is in TFLite's axis order."""
        self._require_shape(tensor, value, tensor.shape)
        self._plain[tensor.index] = value

    def _require_shape(self, tensor: TfliteTensor, value: str, shape: tuple[int, ...]) -> None:
        got = self.values[value].shape
        if got != shape:
            raise ValueError(f"output {tensor.name} is declared {list(shape)}, its operands give {list(got)}")

    def emit(self, op: Op, inputs: tuple[str, ...], name: str, quant: QuantParams | None) -> str:
        """Add a node with one output; ValueError: the operands do not fit the operator."""
        (inferred,) = op.infer(*(self.values[value] for value in inputs))
        output = self._unique(name)
        label = self.label or "output"
        self.values[output] = replace(inferred, quant=quant)
        sources = (self.label,) if self.label else ()
        node = label if op.view is False else f"{label}/{op.kind}"
        self.nodes[output] = Node(self._unique(node), op, inputs, (output,), sources)
        return output

    def constant(self, name: str, array: Array, quant: QuantParams | None = None) -> str:
        """A constant; equal contents share one value."""
        array = np.ascontiguousarray(array)
        key = (f"{array.dtype.name} {quant}", array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._by_content:
            value = self._unique(name)
            self._by_content[key] = value
            self.constants[value] = array
            self.values[value] = replace(type_of_array(array), quant=quant)
        return self._by_content[key]

    def transpose(self, value: str, perm: tuple[int, ...], name: str) -> str:
        """View of `value` with permuted axes: of its origin where it is a transpose itself; a reshape where no
        axis longer than 1 changes its place among the others.
        """
        quant, shape = self.values[value].quant, self.values[value].shape
        if value in self.constants:
            return self.constant(name, self.constants[value].transpose(perm), quant)
        moved = [axis for axis in perm if shape[axis] > 1]
        if moved == sorted(moved):
            return self.reshape(value, tuple(shape[axis] for axis in perm), name)
        node = self.nodes.get(value)
        if node is not None and isinstance(node.op, Transpose):
            inner = node.op.perm
            return self.transpose(node.inputs[0], tuple(inner[axis] for axis in perm), name)
        return self.emit(Transpose(perm), (value,), name, quant)

    def reshape(self, value: str, shape: tuple[int, ...], name: str) -> str:
        """View of `value` with another shape: of its origin where it is a reshape itself."""
        if self.values[value].shape == shape:
            return value
        quant = self.values[value].quant
        if value in self.constants:
            return self.constant(name, self.constants[value].reshape(shape), quant)
        node = self.nodes.get(value)
        if node is not None and isinstance(node.op, Reshape):
            return self.reshape(node.inputs[0], shape, name)
        return self.emit(Reshape(shape), (value,), name, quant)

    def freeze(self) -> Graph:
        """The verified graph, without nodes and constants that no output needs."""
        self.label = ""
        outputs = tuple(self.plain(self.model.tensors[index]) for index in self.model.outputs)
        needed = set(outputs)
        kept: list[Node] = []
        for output, node in reversed(self.nodes.items()):
            if output in needed:
                needed.update(node.inputs)
                kept.append(node)
        needed.update(self.inputs)
        values = {name: kind for name, kind in self.values.items() if name in needed}
        constants = {name: array for name, array in self.constants.items() if name in needed}
        return verify(Graph(self.name, tuple(reversed(kept)), values, constants, self.inputs, outputs), STAGE)

    def _name(self, tensor: TfliteTensor, *, is_plain: bool) -> str:
        """The user sees the tensor's own name at the boundary of the graph and on results of compute operators."""
        if is_plain:
            return tensor.name if tensor.index in self._boundary else f"{tensor.name}:plain"
        is_first = tensor.index not in self._plain and tensor.index not in self._boundary
        return tensor.name if is_first else f"{tensor.name}:nchw"

    def _unique(self, name: str) -> str:
        unique, count = name, 1
        while unique in self._used:
            count += 1
            unique = f"{name}~{count}"
        self._used.add(unique)
        return unique


def logical_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """[n,h,w,c] -> (n, c, h, w); any other rank -> (rows, c, 1, 1), the last axis being c."""
    if len(shape) == 4:
        return tuple(shape[axis] for axis in TO_NCHW)
    return (math.prod(shape[:-1]), shape[-1] if shape else 1, 1, 1)


def quant_of(tensor: TfliteTensor) -> QuantParams | None:
    """Quantization of the whole tensor; None when it has none or one per channel."""
    if len(tensor.scales) != 1 or tensor.scales[0] == 0:
        return None
    return QuantParams(tensor.scales[0], tensor.zero_points[0])
