"""Numbers by which parameter records name element types and functions."""

from __future__ import annotations

KINDS = {"int8": 1, "uint8": 2, "int16": 3, "int32": 4, "int64": 5, "float32": 6, "bool": 7}
"""Element types of operands that have more than one."""

INDEX_FUNCTIONS = {"add": 0, "sub": 1, "mul": 2, "floor_div": 3}
"""Of `index_arithmetic`."""

SQUASH_FUNCTIONS = {"sigmoid": 0, "tanh": 1}
"""Of `squash`."""

UNARY_FUNCTIONS = {
    "sqrt": 0, "exp": 1, "log": 2, "sigmoid": 3, "tanh": 4, "reciprocal": 5, "neg": 6, "abs": 7, "erf": 8, "sin": 9,
    "cos": 10, "floor": 11, "ceil": 12, "round": 13, "sign": 14, "softplus": 15, "softsign": 16, "mish": 17,
    "hard_swish": 18, "hard_sigmoid": 19, "leaky_relu": 20, "elu": 21, "gelu": 22, "gelu_tanh": 23, "pow": 24,
    "clip": 25,
}  # fmt: skip
"""Of `float_unary`; those of npuc.ops.unary have the same names."""

BINARY_FUNCTIONS = {"add": 0, "sub": 1, "mul": 2, "div": 3}
"""Of `float_binary`."""

POOL_FUNCTIONS = {"max": 0, "average": 1}
"""Of `float_pool`."""

FUNCTIONS = {
    "index": INDEX_FUNCTIONS, "squash": SQUASH_FUNCTIONS, "unary": UNARY_FUNCTIONS, "binary": BINARY_FUNCTIONS,
    "pool": POOL_FUNCTIONS,
}  # fmt: skip
