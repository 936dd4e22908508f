"""Functions of one variable: one row each with its ONNX name, its parameters and its meaning.

On int8 tensors each of them becomes a table of 256 entries, so adding one costs a row here and nothing elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npuc.graph.types import Array, TensorType
from npuc.ops.elementwise import same_float
from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.op import Op

_erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow for either sign."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(_erf(x))


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """clip(alpha * x + beta, 0, 1)."""
    return np.clip(alpha * x + beta, 0, 1)


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.logaddexp(0, x)


@dataclass(frozen=True)
class Function:
    """A row of the table: ONNX name, default values of the ONNX attributes, meaning on float64."""

    onnx: str
    meaning: Callable[..., Array]
    attributes: tuple[tuple[str, float], ...] = ()


FUNCTIONS: dict[str, Function] = {
    "sigmoid": Function("Sigmoid", sigmoid),
    "exp": Function("Exp", np.exp),
    "log": Function("Log", np.log),
    "tanh": Function("Tanh", np.tanh),
    "sqrt": Function("Sqrt", np.sqrt),
    "reciprocal": Function("Reciprocal", np.reciprocal),
    "neg": Function("Neg", np.negative),
    "abs": Function("Abs", np.abs),
    "erf": Function("Erf", erf),
    "sin": Function("Sin", np.sin),
    "cos": Function("Cos", np.cos),
    "floor": Function("Floor", np.floor),
    "ceil": Function("Ceil", np.ceil),
    "round": Function("Round", np.rint),
    "sign": Function("Sign", np.sign),
    "softplus": Function("Softplus", softplus),
    "softsign": Function("Softsign", lambda x: x / (1 + np.abs(x))),
    "mish": Function("Mish", lambda x: x * np.tanh(softplus(x))),
    "hard_swish": Function("HardSwish", lambda x: x * hard_sigmoid(x, 1 / 6, 0.5)),
    "hard_sigmoid": Function("HardSigmoid", hard_sigmoid, (("alpha", 0.2), ("beta", 0.5))),
    "leaky_relu": Function("LeakyRelu", lambda x, alpha: np.where(x < 0, alpha * x, x), (("alpha", 0.01),)),
    "elu": Function("Elu", lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x), (("alpha", 1.0),)),
    "gelu": Function("Gelu", lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
    "gelu_tanh": Function("Gelu", lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    "pow": Function("Pow", np.power, (("exponent", 1.0),)),
}


@dataclass(frozen=True)
class Unary(Op):
    """y = function(x, *parameters), a row of FUNCTIONS; `parameters` are in the order of its attributes."""

    function: str
    parameters: tuple[float, ...] = ()

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return same_float(*inputs)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            y = FUNCTIONS[self.function].meaning(inputs[0].astype(np.float64), *self.parameters)
        return (np.asarray(y).astype(inputs[0].dtype),)


def import_unary(node: OnnxNode) -> str:
    """Any row of FUNCTIONS whose parameters are ONNX attributes."""
    name = next(name for name, function in FUNCTIONS.items() if function.onnx == node.op_type)
    if name == "gelu" and node.text("approximate", "none") == "tanh":
        name = "gelu_tanh"
    parameters = tuple(node.number(key, default) for key, default in FUNCTIONS[name].attributes)
    return node.emit(Unary(name, parameters), node.input(0))


from_onnx(*(function.onnx for name, function in FUNCTIONS.items() if name != "pow"))(import_unary)


@from_onnx("Pow")
def import_pow(node: OnnxNode) -> str:
    """A constant exponent, the same for every element."""
    exponent = node.constant(1, "exponent")
    if exponent.size != 1:
        raise Refusal(f"exponent has {exponent.size} elements, a scalar is needed")
    return node.emit(Unary("pow", (float(exponent.reshape(())),)), node.input(0))


@to_onnx(Unary)
def export_unary(op: Unary, export: OnnxExport) -> None:
    """One node; an exponent is an input in ONNX."""
    function = FUNCTIONS[op.function]
    if op.function == "pow":
        exponent = export.constant(np.array(op.parameters[0], np.float32))
        export.node("Pow", (*export.inputs, exponent), export.outputs)
        return
    attributes: dict[str, float | str] = {
        key: value for (key, _), value in zip(function.attributes, op.parameters, strict=True)
    }
    if op.function == "gelu_tanh":
        attributes["approximate"] = "tanh"
    export.node(function.onnx, export.inputs, export.outputs, **attributes)
