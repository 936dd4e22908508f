"""The integer graph while it is being written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from calibration import CalibrationError, affine_from_range
from npuc.errors import QuantizationError
from npuc.graph.graph import Graph, Node, type_of_array, verify
from npuc.graph.rewrite import derived
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.ops.op import Op
from npuc.ops.structure import Reshape
from npuc.ptq.plan import STAGE, Plan, Step
from npuc.ptq.pointwise import encode


class Emitter:
    """Collects nodes, values and constants. Stored values keep their float names: both graphs can be compared."""

    def __init__(self, plan: Plan, scales: Mapping[str, QuantParams]) -> None:
        self.plan = plan
        self._scales = dict(scales)
        self._nodes: list[Node] = []
        self._values: dict[str, TensorType] = {}
        self._constants: dict[str, Array] = {}
        self._by_content: dict[tuple[str, tuple[int, ...], bytes, QuantParams | None], str] = {}
        self._taken = set(plan.graph.values)
        self.floats: dict[str, str] = {}
        """Values that exist as float32, too: under which name."""
        self._node_names: set[str] = set()
        for name in plan.graph.inputs:
            self._values[name] = TensorType("int8", plan.graph.values[name].shape, self._scales[name])

    def quant(self, value: str) -> QuantParams:
        """Scale and zero point of an int8 value."""
        return self._scales[value]

    def shape(self, value: str) -> tuple[int, ...]:
        """Shape of a value of the integer graph."""
        return self._values[value].shape

    def is_constant(self, value: str) -> bool:
        """Whether a value of the float graph is a constant."""
        return value in self.plan.graph.constants

    def float_constant(self, value: str, role: str) -> Array:
        """Contents of a constant of the float graph; `role` names it when it turns out to be computed."""
        if not self.is_constant(value):
            raise ValueError(f"{role} {value} is computed, must be a constant")
        return self.plan.graph.constants[value]

    def constant(self, array: Array, name: str, quant: QuantParams | None = None) -> str:
        """A constant of the integer graph; equal contents are stored once."""
        key = (array.dtype.name, array.shape, array.tobytes(), quant)
        if key not in self._by_content:
            name = _unused(name, self._taken)
            self._by_content[key] = name
            self._constants[name] = array
            self._values[name] = replace(type_of_array(array), quant=quant)
            if quant is not None:
                self._scales[name] = quant
        return self._by_content[key]

    def quantized_constant(self, array: Array, name: str, quant: QuantParams | None = None) -> str:
        """An int8 constant from float values, over their own range unless a scale is given."""
        if quant is None:
            try:
                quant = QuantParams(*affine_from_range(float(array.min()), float(array.max())))
            except CalibrationError as error:
                raise QuantizationError(f"constant {name}: {error}", stage=STAGE, hint=error.hint) from error
        return self.constant(encode(array, quant), derived(name, "int8"), quant)

    def emit(self, op: Op, inputs: tuple[str, ...], value: str, step: Step) -> None:
        """Append an operator that computes a stored value; a Reshape follows when the value has another shape."""
        shape = self.plan.graph.values[value].shape
        (inferred,) = op.infer(*(self._values[name] for name in inputs))
        if inferred.shape != shape:
            inputs = (self.emit_temporary(op, inputs, value, step, self.quant(value)),)
            op = Reshape(shape)
        self._append(op, inputs, value, step)

    def emit_float(self, op: Op, inputs: tuple[str, ...], value: str, step: Step) -> None:
        """Append an operator whose result stays float32."""
        self._scales.pop(value, None)
        self._append(op, inputs, value, step)

    def emit_temporary(
        self, op: Op, inputs: tuple[str, ...], value: str, step: Step, quant: QuantParams | None = None
    ) -> str:
        """Append an operator whose result is on the way to, or another form of, `value`; the name of the result.

        A float result has no `quant`.
        """
        name = _unused(derived(value, op.kind), self._taken)
        if quant is not None:
            self._scales[name] = quant
        self._append(op, inputs, name, step)
        return name

    def reshaped(self, value: str, shape: tuple[int, ...], step: Step) -> str:
        """The value in another shape."""
        if self.shape(value) == shape:
            return value
        return self.emit_temporary(Reshape(shape), (value,), value, step, self.quant(value))

    def _append(self, op: Op, inputs: tuple[str, ...], value: str, step: Step) -> None:
        (inferred,) = op.infer(*(self._values[name] for name in inputs))
        self._values[value] = replace(inferred, quant=self._scales.get(value))
        self._nodes.append(Node(_unused(step.node.name, self._node_names), op, inputs, (value,), step.sources))

    def finish(self) -> Graph:
        """The integer graph, verified. An output of the float graph that is a constant becomes an int8 constant."""
        graph = self.plan.graph
        for name in graph.outputs:
            if self.is_constant(name) and name not in self._values:
                stored = self.quantized_constant(graph.constants[name], name)
                self._constants[name], self._values[name] = self._constants[stored], self._values[stored]
        return verify(
            Graph(graph.name, tuple(self._nodes), self._values, self._constants, graph.inputs, graph.outputs), STAGE
        )


def _unused(name: str, taken: set[str]) -> str:
    """`name`, or the first of name~2, name~3 ... that is not taken; it is taken from now on."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}~{number}"
    taken.add(candidate)
    return candidate
