"""How an operator family says what its ONNX nodes mean, and how it is written back as ONNX.

An import rule is a function `(node: OnnxNode) -> str | tuple[str, ...]` that emits operators and returns the values
that the node's outputs stand for; `@from_onnx("Relu")` enters it in the table. An export form is a function
`(op, export: OnnxExport) -> None` that writes ONNX nodes; `@to_onnx(Relu)` enters it. Both tables are complete once
`npuc.ops.catalog` is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from npuc.graph.types import Array, TensorType
from npuc.ops.op import Op


class Refusal(ValueError):
    """A node that cannot be imported: what is wrong with it, and what the user can do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class Builder(Protocol):
    """What an import rule may ask of the graph that is being built."""

    def type_of(self, value: str) -> TensorType:
        """Type of a value."""

    def constant(self, value: str) -> Array | None:
        """Contents of a constant, None for a value that depends on the inputs."""

    def add_constant(self, array: Array) -> str:
        """A new constant."""

    def emit(self, op: Op, inputs: tuple[str, ...]) -> tuple[str, ...]:
        """A new operator, evaluated at once when all inputs are constant; its outputs."""


@dataclass(frozen=True)
class OnnxNode:
    """One node of the user's model as its import rule sees it.

    "" is an absent input; `used` says of each output whether anything reads it.
    """

    name: str
    op_type: str
    opset: int
    inputs: tuple[str, ...]
    used: tuple[bool, ...]
    attributes: Mapping[str, Any]
    builder: Builder

    def has(self, index: int) -> bool:
        """Whether input `index` is given."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def input(self, index: int) -> str:
        """Value of input `index`, which must be given."""
        if not self.has(index):
            raise Refusal(f"input {index} is missing")
        return self.inputs[index]

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Shape of input `index`."""
        return self.builder.type_of(self.input(index)).shape

    def is_constant(self, index: int) -> bool:
        """Whether input `index` is given and does not depend on the graph's inputs."""
        return self.has(index) and self.builder.constant(self.input(index)) is not None

    def constant(self, index: int, role: str) -> Array:
        """Contents of input `index`, which must be constant; `role` names it in the refusal."""
        array = self.builder.constant(self.input(index))
        if array is None:
            raise Refusal(f"{role} depends on the inputs, a constant is needed", "export the model with fixed shapes")
        return array

    def integers(self, attribute: str, index: int | None = None) -> tuple[int, ...] | None:
        """Integers from the attribute, or from input `index` in opsets that moved them there; None when absent."""
        if attribute in self.attributes:
            return tuple(int(value) for value in self.attributes[attribute])
        if index is None or not self.has(index):
            return None
        return tuple(int(value) for value in self.constant(index, attribute).reshape(-1))

    def integer(self, attribute: str, default: int) -> int:
        """Integer attribute."""
        return int(self.attributes.get(attribute, default))

    def number(self, attribute: str, default: float) -> float:
        """Float attribute."""
        return float(self.attributes.get(attribute, default))

    def text(self, attribute: str, default: str) -> str:
        """String attribute."""
        value = self.attributes.get(attribute, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def axis(self, value: int, rank: int) -> int:
        """Axis counted from the front; raises Refusal when it lies outside -rank..rank-1."""
        if not -rank <= value < rank:
            raise Refusal(f"axis {value} of a tensor of rank {rank}")
        return value % rank

    def emit(self, op: Op, *inputs: str) -> str:
        """A new operator with one output; returns its value."""
        return self.builder.emit(op, inputs)[0]

    def literal(self, array: Array) -> str:
        """A new constant."""
        return self.builder.add_constant(np.asarray(array))

    def shape_of(self, value: str) -> tuple[int, ...]:
        """Shape of any value."""
        return self.builder.type_of(value).shape


class OnnxExport(Protocol):
    """What an export form may ask of the model that is being written."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of input `index`."""

    def node(self, op_type: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **attributes: Any) -> None:
        """Write one ONNX node."""

    def constant(self, array: Array) -> str:
        """Write a constant; returns its name."""

    def temporary(self) -> str:
        """A value name that is not in use."""


ImportRule = Callable[[OnnxNode], "str | tuple[str, ...]"]
ExportForm = Callable[[Any, OnnxExport], None]

IMPORT_RULES: dict[str, ImportRule] = {}
EXPORT_FORMS: dict[type[Op], ExportForm] = {}

RuleT = TypeVar("RuleT", bound=ImportRule)
FormT = TypeVar("FormT", bound=ExportForm)


def from_onnx(*op_types: str) -> Callable[[RuleT], RuleT]:
    """Enter an import rule for these operators of the default ONNX domain."""

    def enter(rule: RuleT) -> RuleT:
        IMPORT_RULES.update(dict.fromkeys(op_types, rule))
        return rule

    return enter


def to_onnx(kind: type[Op]) -> Callable[[FormT], FormT]:
    """Enter the export form of an operator class."""

    def enter(form: FormT) -> FormT:
        EXPORT_FORMS[kind] = form
        return form

    return enter
