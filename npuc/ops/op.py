"""The root of every operator: an immutable record that infers types and has a slow, obvious meaning."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from npuc.graph.types import Array, TensorType


@dataclass(frozen=True)
class Op:
    """An operator without its operands. Subclasses are frozen dataclasses; attributes are plain immutable values."""

    n_outputs: ClassVar[int] = 1
    view: ClassVar[bool] = False
    """True for operators that only rename elements of their input (reshape, transpose, slice)."""

    @property
    def kind(self) -> str:
        """Name of the operator, its class name."""
        return type(self).__name__

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Types of the outputs; raises ValueError with a one-line reason when the operands do not fit."""
        raise NotImplementedError(f"{self.kind} has no type inference")

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Values of the outputs, computed in the most obvious way."""
        raise NotImplementedError(f"{self.kind} has no reference")

    def __str__(self) -> str:
        parts = []
        for item in fields(self):
            text = str(getattr(self, item.name)).replace("\n", " ")
            parts.append(f"{item.name}={text if len(text) <= 60 else text[:57] + '...'}")
        return f"{self.kind}({', '.join(parts)})"
