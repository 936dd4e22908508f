"""TransData: the explicit conversion between two layouts of the same tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuc.graph.types import Array, TensorType
from npuc.ops.op import Op


@dataclass(frozen=True)
class TransData(Op):
    """The same elements in another layout: an identity on values, a copy on the machine."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (replace(inputs[0], layout=None),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0],)
