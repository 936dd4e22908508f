"""The graph under construction: every TFLite tensor in its own axis order and, where an operator wants it, NCHW.

Values of uint8 tensors are stored as int8, less 128; only inputs and outputs of the graph keep uint8, and a convolution
reads such an input as it is. A float input or output that is only quantized or dequantized is stored quantized.

Compute operators work on rank-4 values: a tensor [n,h,w,c] as NCHW, one of another rank as [rows,c,1,1] with its last
axis as channels. Either form is made from the other on demand, once, and views of views collapse, so chains of
convolutions and dense layers have no transposes between them. Views that nothing reads are dropped at the end.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from npuc.errors import ImportFailure
from npuc.graph.graph import Graph, Node, State, type_of_array, verify
from npuc.graph.types import Array, Host, QuantParams, TensorType
from npuc.importer.tflite_model import DTYPES, STAGE, TfliteModel, TfliteTensor
from npuc.importer.tflite_storage import (
    TO_INT8,
    TO_NCHW,
    TO_NHWC,
    TO_UINT8,
    logical_shape,
    quant_of,
    signed,
    stored_quant_of,
)
from npuc.ops.integer.elementwise import Lookup
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose


class TfliteBuilder:
    """Collects nodes, values and constants; `label` is the TFLite operator that is being imported."""

    def __init__(self, model: TfliteModel, name: str) -> None:
        self.model = model
        self.name = name
        self.label = ""
        self.values: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self.nodes: dict[str, Node] = {}
        self.states: dict[str, State] = {}
        self._host: dict[int, Host] = {}
        self._unsigned: dict[int, str] = {}
        self._plain: dict[int, str] = {}
        self._logical: dict[int, str] = {}
        self._by_content: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._used: set[str] = set()
        self._boundary = {*model.inputs, *model.outputs}
        self.inputs = tuple(self._input(model.tensors[index]) for index in model.inputs)

    def _input(self, tensor: TfliteTensor) -> str:
        if tensor.index in self._plain or tensor.data is not None:
            raise ImportFailure(f"graph input {tensor.name} is listed twice or is a constant", stage=STAGE)
        stored = self._quantized_form(tensor)
        name = self.declare(replace(stored, name=tensor.name))
        if stored.dtype == "UINT8":
            self._unsigned[tensor.index] = name
        else:
            self._plain[tensor.index] = name
        if stored is not tensor:
            self._host[tensor.index] = Host(DTYPES[tensor.dtype])
        return name

    def _quantized_form(self, tensor: TfliteTensor) -> TfliteTensor:
        """What the only reader of a float input makes of it; the tensor itself when that is no QUANTIZE."""
        readers = [operator for operator in self.model.operators if tensor.index in operator.inputs]
        is_alone = len(readers) == 1 and tensor.index not in self.model.outputs
        if tensor.dtype != "FLOAT32" or not is_alone or readers[0].kind != "QUANTIZE" or not readers[0].outputs:
            return tensor
        quantized = self.model.tensors[readers[0].outputs[0]]
        is_like = quantized.dtype in ("INT8", "UINT8") and quantized.shape == tensor.shape and quant_of(quantized)
        return quantized if is_like else tensor

    def declare(self, tensor: TfliteTensor) -> str:
        """A value without a producer: a graph input or a state."""
        if tensor.dtype not in DTYPES or min(tensor.shape, default=1) < 1:
            raise ImportFailure(f"tensor {tensor.name} is {tensor.dtype}{list(tensor.shape)}, which no value can be",
                                stage=STAGE)  # fmt: skip
        name = self._unique(tensor.name)
        self.values[name] = TensorType(DTYPES[tensor.dtype], tensor.shape, stored_quant_of(tensor))
        return name

    def is_boundary(self, tensor: TfliteTensor) -> bool:
        """Whether a float tensor is a graph input that is stored quantized."""
        return tensor.index in self._host

    def declare_opaque(self, tensor: TfliteTensor) -> None:
        """The output of an operator that cannot be imported, so that what reads it can be judged, too."""
        name = self._unique(tensor.name)
        shape = tuple(max(size, 1) for size in tensor.shape)
        dtype = DTYPES.get(tensor.dtype, "int8")
        self.values[name] = TensorType("int8" if dtype == "uint8" else dtype, shape, quant_of(tensor))
        self._plain[tensor.index] = name

    def is_defined(self, tensor: TfliteTensor) -> bool:
        """Whether the tensor is a graph input, a constant, or was written by an operator."""
        return tensor.data is not None or any(
            tensor.index in known for known in (self._plain, self._logical, self._unsigned)
        )

    def plain(self, tensor: TfliteTensor) -> str:
        """Value of the tensor in TFLite's axis order."""
        if tensor.index not in self._plain:
            if tensor.index in self._logical:
                value, name = self._logical[tensor.index], self._name(tensor, is_plain=True)
                view = self._from_logical(value, tensor.shape, name)
            elif tensor.index in self._unsigned:
                view = self._shifted(tensor)
            elif tensor.data is not None:
                view = self.constant(tensor.name, signed(tensor.data), quant_of(tensor))
            else:
                raise ImportFailure(f"{self.label} reads {tensor.name} before an operator writes it", stage=STAGE,
                                    hint="order the operators so that none depends on a later one")  # fmt: skip
            self._plain[tensor.index] = view
        return self._plain[tensor.index]

    def _shifted(self, tensor: TfliteTensor) -> str:
        value = self._unsigned[tensor.index]
        return self.emit(Lookup(TO_INT8), (value,), f"{tensor.name}:int8", quant_of(tensor))

    def unsigned(self, tensor: TfliteTensor) -> str | None:
        """The uint8 input of the graph that this tensor is, with the zero point of its type; None for others."""
        return self._unsigned.get(tensor.index)

    def set_unsigned(self, tensor: TfliteTensor, value: str) -> None:
        """The tensor holds the values of the uint8 input `value`."""
        self._require_shape(tensor, value, tensor.shape)
        self._unsigned[tensor.index] = value

    def image(self, tensor: TfliteTensor) -> str:
        """The logical form of the tensor for an operator that also reads uint8."""
        raw = self._unsigned.get(tensor.index)
        if raw is None or len(tensor.shape) != 4:
            return self.logical(tensor)
        return self.transpose(raw, TO_NCHW, f"{tensor.name}:nchw")

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

    def alias(self, tensor: TfliteTensor, other: TfliteTensor) -> None:
        """The tensor has the stored values of `other`."""
        if other.index in self._logical and other.shape == tensor.shape:
            self._logical[tensor.index] = self._logical[other.index]
        else:
            self.set_plain(tensor, self.reshape(self.plain(other), tensor.shape, tensor.name))

    def set_host(self, tensor: TfliteTensor, stored: TfliteTensor) -> None:
        """A float output of the graph is kept as what `stored` holds; the host dequantizes it."""
        self.alias(tensor, stored)
        self._host[tensor.index] = Host(DTYPES[tensor.dtype])

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
        outputs = tuple(self._output(self.model.tensors[index]) for index in self.model.outputs)
        needed = {*outputs, *(state.output for state in self.states.values())}
        kept: list[Node] = []
        for output, node in reversed(self.nodes.items()):
            if output in needed:
                needed.update(node.inputs)
                kept.append(node)
        needed.update(self.inputs, (state.input for state in self.states.values()))
        values = {name: kind for name, kind in self.values.items() if name in needed}
        constants = {name: array for name, array in self.constants.items() if name in needed}
        boundary = zip((*self.model.inputs, *self.model.outputs), (*self.inputs, *outputs), strict=True)
        host = {value: self._host[index] for index, value in boundary if index in self._host}
        states = tuple(self.states.values())
        graph = Graph(self.name, tuple(reversed(kept)), values, constants, self.inputs, outputs, host, states)
        return verify(graph, STAGE)

    def _output(self, tensor: TfliteTensor) -> str:
        """Value of an output of the graph; the host gets uint8 where the model gives uint8."""
        if tensor.dtype != "UINT8" or tensor.index in self._host:
            return self.plain(tensor)
        if tensor.index in self._unsigned:
            return self._unsigned[tensor.index]
        return self.emit(Lookup(TO_UINT8, "uint8"), (self.plain(tensor),), tensor.name, stored_quant_of(tensor))

    def _name(self, tensor: TfliteTensor, *, is_plain: bool) -> str:
        """The user sees the tensor's own name at the boundary of the graph and on results of compute operators."""
        if is_plain:
            is_named = tensor.index in self._boundary and tensor.dtype != "UINT8"
            return tensor.name if is_named else f"{tensor.name}:plain"
        is_first = tensor.index not in self._plain and tensor.index not in self._boundary
        return tensor.name if is_first else f"{tensor.name}:nchw"

    def _unique(self, name: str) -> str:
        unique, count = name, 1
        while unique in self._used:
            count += 1
            unique = f"{name}~{count}"
        self._used.add(unique)
        return unique
