"""Small integer networks for tests of whole programs."""

from dataclasses import replace

import numpy as np

from isa.arithmetic import quantize_multiplier
from isa.target_file import load_target
from npuc.compiler import Compiled, Options, compile_model
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import QuantParams, TensorType
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import QAdd
from npuc.ops.integer.rescale import Rescale, addition_rescales
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.window import Window

SCALE = QuantParams(0.05, 3)


def conv_add_softmax(channels: int = 5, side: int = 8) -> Graph:
    """x -> conv 3x3 -> conv 3x3 -> + first conv -> softmax over the channels."""
    rng = np.random.default_rng(7)
    kind = TensorType("int8", (1, channels, side, side), SCALE)
    factor = quantize_multiplier(0.01)
    conv = QConv(
        Window((3, 3), pads=(1, 1, 1, 1)), 1, 3, 3, (factor.multiplier,) * channels, (factor.shift,) * channels,
        False, (-128, 127),
    )  # fmt: skip
    add = QAdd(20, *addition_rescales(0.05, 0.05, 0.05), 3, 3, 3, (-128, 127))
    nodes = (
        Node("conv1", conv, ("x", "w1", "b1"), ("c1",), ("conv1",)),
        Node("conv2", conv, ("c1", "w2", "b2"), ("c2",), ("conv2",)),
        Node("add", add, ("c1", "c2"), ("s",), ("add",)),
        Node("softmax", QSoftmax(1 << 30, 20, 1), ("s",), ("y",), ("softmax",)),
    )
    weights = (channels, channels, 3, 3)
    constants = {f"w{i}": rng.integers(-127, 128, weights, np.int8) for i in (1, 2)}
    constants |= {f"b{i}": rng.integers(-999, 999, channels, np.int32) for i in (1, 2)}
    values = {name: TensorType(a.dtype.name, a.shape) for name, a in constants.items()}  # type: ignore[arg-type]
    values |= dict.fromkeys(("x", "c1", "c2", "s"), kind)
    values["y"] = replace(kind, quant=QuantParams(1 / 256, -128))
    return verify(Graph("tiny", nodes, values, constants, ("x",), ("y",)))


def compile_for(
    graph: Graph,
    target: str = "edge-256",
    sram_bytes: int | None = None,
    optimize: str = "latency",
    policy: str = "search",
) -> Compiled:
    """The graph compiled, its own quantization kept."""
    return compile_model(graph, None, Options(load_target(target), sram_bytes, optimize, policy=policy))


HALF = Rescale(1 << 30, 31)
