"""The graph while it is being imported: emits operators, folds constants on the way, gives values their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from npuc.graph.graph import Graph, Node, type_of_array
from npuc.graph.rewrite import derived
from npuc.graph.types import Array, TensorType
from npuc.ops.constant import require_size
from npuc.ops.onnx_rule import Refusal
from npuc.ops.op import Op
from npuc.ops.structure import Reshape

TEMPORARY = "\0"
"""Prefix of a value that has no name yet; no name of a model may begin with it."""


class GraphBuilder:
    """Collects nodes, types and constants. Operators of one ONNX node are pending until `commit` names them."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self.taken = set(reserved)
        self.nodes: list[Node] = []
        self.values: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self._pending: list[tuple[Op, tuple[str, ...], tuple[str, ...]]] = []
        self._temporaries: list[str] = []
        self._node_names: set[str] = set()

    def type_of(self, value: str) -> TensorType:
        """Type of a value."""
        return self.values[value]

    def constant(self, value: str) -> Array | None:
        """Contents of a constant, None for a value that depends on the inputs."""
        return self.constants.get(value)

    def add_constant(self, array: Array) -> str:
        """A new constant."""
        name = self._temporary()
        self.define_constant(name, array)
        return name

    def define_constant(self, name: str, array: Array) -> None:
        """Give a name its contents."""
        self.constants[name] = array
        self.values[name] = type_of_array(array)

    def emit(self, op: Op, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """A new operator, evaluated at once when all inputs are constant; its outputs."""
        arrays = [self.constants[name] for name in inputs if name in self.constants]
        if len(arrays) == len(inputs):
            return tuple(self.add_constant(array) for array in evaluate_constant(op, arrays))
        try:
            types = op.infer(*(self.values[name] for name in inputs))
        except ValueError as error:
            raise Refusal(str(error)) from error
        outputs = tuple(self._temporary() for _ in types)
        self.values.update(zip(outputs, types, strict=True))
        self._pending.append((op, inputs, outputs))
        return outputs

    def commit(self, name: str, source: str, results: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
        """End an ONNX node: its `results` get the names `outputs`, "" where nothing reads one; all names given."""
        names: dict[str, str] = {}
        for value, output in zip(results, outputs, strict=False):
            if not output:
                continue
            if value in self.constants:
                self.define_constant(output, self.constants[value])
            elif value.startswith(TEMPORARY) and value not in names:
                names[value] = output
            else:
                self._alias(value, output, names)
        prefix = next(filter(None, outputs), name)
        kinds = {value: op.kind for op, _, produced in self._pending for value in produced}
        for value in self._temporaries:
            if value not in names:
                names[value] = self.unique(derived(prefix, kinds.get(value, "constant")))
            self._rename(value, names[value])
        for op, inputs, produced in self._pending:
            node_name = self._unique_node(name)
            ins, outs = (tuple(names.get(value, value) for value in group) for group in (inputs, produced))
            self.nodes.append(Node(node_name, op, ins, outs, (source,)))
        self._pending, self._temporaries = [], []
        return names

    def flush(self, name: str) -> dict[str, str]:
        """Name everything that is pending, so that the nodes of a subgraph can follow; the names given."""
        return self.commit(name, name, (), ())

    def discard(self) -> None:
        """Forget what the current ONNX node emitted."""
        for value in self._temporaries:
            self.values.pop(value, None)
            self.constants.pop(value, None)
        self._pending, self._temporaries = [], []

    def unique(self, name: str) -> str:
        """`name`, or `name` with a number when it is taken."""
        chosen, number = name, 1
        while chosen in self.taken:
            number += 1
            chosen = f"{name}~{number}"
        self.taken.add(chosen)
        return chosen

    def finish(self, name: str, inputs: Mapping[str, TensorType], outputs: tuple[str, ...]) -> Graph:
        """The graph, with the constants that something reads."""
        used = {value for node in self.nodes for value in node.inputs} | set(outputs)
        constants = {value: array for value, array in self.constants.items() if value in used}
        defined = {*inputs, *constants, *(value for node in self.nodes for value in node.outputs)}
        values = {value: type_ for value, type_ in self.values.items() if value in defined}
        return Graph(name, tuple(self.nodes), values, constants, tuple(inputs), outputs)

    def _alias(self, value: str, output: str, names: Mapping[str, str]) -> None:
        self.values[output] = self.values[value]
        self._pending.append((Reshape(self.values[value].shape), (names.get(value, value),), (output,)))

    def _temporary(self) -> str:
        self._temporaries.append(f"{TEMPORARY}{len(self._temporaries)}")
        return self._temporaries[-1]

    def _rename(self, value: str, name: str) -> None:
        self.values[name] = self.values.pop(value)
        if value in self.constants:
            self.constants[name] = self.constants.pop(value)

    def _unique_node(self, name: str) -> str:
        chosen, number = name, 1
        while chosen in self._node_names:
            number += 1
            chosen = f"{name}~{number}"
        self._node_names.add(chosen)
        return chosen


def evaluate_constant(op: Op, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Value of an operator on constants; raises Refusal when they do not fit together."""
    limit_results(op, arrays)
    try:
        with np.errstate(all="ignore"):
            return tuple(np.asarray(array) for array in op.reference(*arrays))
    except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError) as error:
        raise Refusal(f"constant operands do not fit: {str(error).splitlines()[0]}") from error


def limit_results(op: Op, arrays: Sequence[Array]) -> None:
    """Raise Refusal when operands that are small each would give a huge constant."""
    try:
        types = op.infer(*(TensorType("float32", array.shape) for array in arrays))
    except ValueError:
        return
    for result in types:
        require_size(result.shape)
