"""The walk over the nodes of a model: each finds its import rule, and everything refused is collected."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from npuc.errors import ImportFailure, UnsupportedOp
from npuc.graph.types import TensorType
from npuc.importer.onnx_builder import GraphBuilder
from npuc.importer.onnx_control import import_if, import_loop
from npuc.importer.onnx_fold import FOLDABLE, fold_node
from npuc.importer.onnx_order import ordered_nodes, reads
from npuc.importer.onnx_tensor import tensor_array
from npuc.ops.catalog import IMPORT_RULES
from npuc.ops.onnx_rule import OnnxNode, Refusal

MALFORMED = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError)
"""What attributes and constants of the wrong kind or size raise in an import rule."""

Scope = MutableMapping[str, str]
"""Name in the graph that is built of each ONNX value in sight."""


@dataclass(frozen=True)
class Rejected:
    """A node that cannot be compiled."""

    name: str
    op_type: str
    reason: str
    hint: str

    def __str__(self) -> str:
        return f"{self.name} ({self.op_type}): {self.reason}"


@dataclass
class Walker:
    """State of the walk. `guess` gives the type of a refused node's output, so that the walk can go on behind it."""

    builder: GraphBuilder
    opset: int
    ir_version: int
    guess: Callable[[str], TensorType | None]
    rejected: list[Rejected] = field(default_factory=list)

    def walk(self, graph: onnx.GraphProto, scope: Scope, inner: bool = False) -> None:
        """Import the initializers and nodes of one graph; `scope` receives its values."""
        if graph.sparse_initializer:
            raise ImportFailure(f"sparse initializer {graph.sparse_initializer[0].values.name!r}", hint="make it dense")
        for tensor in graph.initializer:
            scope[tensor.name] = self.builder.unique(tensor.name) if inner else tensor.name
            self.builder.define_constant(scope[tensor.name], tensor_array(tensor))
        nodes = ordered_nodes(graph, scope)
        used = {value.name for value in graph.output} | {name for _, node in nodes for name in reads(node)}
        for label, node in nodes:
            wanted = [name if name in used else "" for name in node.output]
            known = all(name in scope for name in reads(node))
            try:
                check(node, self.opset, self.ir_version)
                if known:
                    self.import_node(label, node, wanted, scope, inner)
                else:
                    self.require_known(node)
            except Refusal as refusal:
                self.builder.discard()
                self.rejected.append(Rejected(label, node.op_type, str(refusal), refusal.hint))
                self.assume(wanted, scope)

    def import_node(self, label: str, node: onnx.NodeProto, wanted: list[str], scope: Scope, inner: bool) -> None:
        """Apply the import rule of one node, or evaluate it when it is constant."""
        attributes = {item.name: attribute_value(item) for item in node.attribute}
        inputs = tuple(scope[name] if name else "" for name in node.input)
        used = tuple(map(bool, wanted))
        view = OnnxNode(label, node.op_type, self.opset, inputs, used, attributes, self.builder)
        try:
            results = self.apply(node, view, scope)
        except Refusal:
            raise
        except MALFORMED as error:
            raise Refusal(f"malformed: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}") from error
        missing = [name for name in wanted[len(results) :] if name]
        if missing:
            raise Refusal(f"output {missing[0]!r} is used, allowed are the first {len(results)}")
        outputs = [self.builder.unique(name) if inner and name else name for name in wanted]
        self.builder.commit(label, label, results, outputs)
        scope.update({name: output for name, output in zip(wanted, outputs, strict=True) if name})

    def apply(self, node: onnx.NodeProto, view: OnnxNode, scope: Scope) -> tuple[str, ...]:
        """Values of a node's outputs."""
        if node.op_type in ("If", "Loop"):
            run_body = self.body_runner(view.name, scope)
            return import_if(view, run_body) if node.op_type == "If" else import_loop(view, run_body)
        rule = IMPORT_RULES.get(node.op_type)
        if rule is not None:
            results = rule(view)
            return (results,) if isinstance(results, str) else results
        arrays = [self.builder.constant(name) if name else None for name in view.inputs]
        computed = any(array is None and name for array, name in zip(arrays, view.inputs, strict=True))
        if computed or node.op_type not in FOLDABLE:
            self.require_known(node)
        return tuple(map(self.builder.add_constant, fold_node(node, arrays, self.opset)))

    def require_known(self, node: onnx.NodeProto) -> None:
        """Raise Refusal for an operator without import rule."""
        if node.op_type not in IMPORT_RULES and node.op_type not in ("If", "Loop"):
            raise Refusal(f"operator {node.op_type} is not supported", "choose from the operators in `npuc ops`")

    def body_runner(self, label: str, scope: Scope) -> Callable[[onnx.GraphProto, dict[str, str]], list[str]]:
        """How a control operator imports a subgraph: what it refuses is collected here as well."""

        def run(body: onnx.GraphProto, bound: dict[str, str]) -> list[str]:
            names = self.builder.flush(label)
            inside = ChainMap({inner: names.get(outer, outer) for inner, outer in bound.items()}, scope)
            n_rejected = len(self.rejected)
            self.walk(body, inside, inner=True)
            if len(self.rejected) > n_rejected:
                raise Refusal("its subgraph has nodes that are not supported")
            return [inside[value.name] for value in body.output]

        return run

    def assume(self, outputs: list[str], scope: Scope) -> None:
        """Let the walk go on behind a refused node where the types of its outputs are known."""
        for name in filter(None, outputs):
            guessed = self.guess(name)
            if guessed is not None:
                scope[name] = name
                self.builder.values[name] = guessed

    def report(self) -> UnsupportedOp:
        """All refusals in one error."""
        hints = "; ".join(dict.fromkeys(item.hint for item in self.rejected if item.hint))
        if len(self.rejected) == 1:
            return UnsupportedOp(str(self.rejected[0]), stage="import", hint=hints)
        lines = "".join(f"\n  {item}" for item in self.rejected)
        return UnsupportedOp(f"{len(self.rejected)} nodes cannot be compiled:{lines}", stage="import", hint=hints)


def check(node: onnx.NodeProto, opset: int, ir_version: int) -> None:
    """Raise Refusal when a node does not follow the definition of its operator."""
    if node.domain not in ("", "ai.onnx"):
        raise Refusal(f"domain {node.domain!r}, allowed is the default domain", "export with standard operators")
    if any(attribute.HasField("g") for attribute in node.attribute):
        return
    context = onnx.checker.C.CheckerContext()
    context.ir_version = ir_version
    context.opset_imports = {"": opset}
    try:
        onnx.checker.check_node(node, context)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise Refusal(f"malformed: {str(error).splitlines()[0]}") from error


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Value of an attribute in Python; tensors are arrays, subgraphs stay as they are."""
    if attribute.type == onnx.AttributeProto.TENSOR:
        return tensor_array(attribute.t)
    return onnx.helper.get_attribute_value(attribute)
