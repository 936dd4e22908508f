"""Hypothesis strategies of small integer networks over every operator, with channel counts that fill no block."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from isa.arithmetic import quantize_multiplier, softmax_scale
from isa.target import Target
from npuc.errors import NpucError
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.legalize import legalize
from npuc.ops.integer.conv import QConv, Residual
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.integer.rescale import addition_rescales
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, ResizeNearest, Slice, Transpose
from npuc.ops.window import Window
from npuc.partition import Partition, partition
from npuc.passes import HARDWARE_PASSES, INTEGER_PASSES, run_passes

CHANNELS = (1, 3, 5, 8, 16, 17, 33)
LARGEST = 20_000
"""Elements of the largest value."""

FULL = (-128, 127)
Draw = Callable[[st.SearchStrategy[int]], int]


@dataclass
class Builder:
    """A graph that grows by one operator at a time; `rng` fills constants, `draw` decides shapes."""

    draw: Draw
    rng: np.random.Generator
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, max(low, high)))

    def zero_point(self, name: str) -> int:
        quant = self.values[name].quant
        return quant.zero_point if quant else 0

    def shape(self, name: str) -> tuple[int, ...]:
        return self.values[name].shape

    def constant(self, array: Array) -> str:
        name = f"const{len(self.constants)}"
        self.constants[name] = array
        self.values[name] = TensorType(array.dtype.name, array.shape)  # type: ignore[arg-type]
        return name

    def add(self, op: Op, inputs: list[str], zero_point: int) -> str:
        """Append the operator; its result has that zero point."""
        kind = op.infer(*(self.values[name] for name in inputs))[0]
        name = f"v{len(self.nodes)}"
        quant = kind.quant if isinstance(op, QSoftmax) else QuantParams(0.05, zero_point)
        self.values[name] = TensorType(kind.dtype, kind.shape, quant)
        self.nodes.append(Node(f"n{len(self.nodes)}", op, tuple(inputs), (name,), (f"n{len(self.nodes)}",)))
        return name

    def window(self, shape: tuple[int, ...], *, dilated: bool) -> Window:
        """A window that fits; padding is less than the kernel, so that no window is empty."""
        dilation = (self.number(1, 2), self.number(1, 2)) if dilated else (1, 1)
        kernel = tuple(self.number(1, min(4, (side - 1) // d + 1)) for side, d in zip(shape[2:], dilation, strict=True))
        pads = tuple(self.number(0, kernel[i % 2] - 1) for i in range(4))
        stride = (self.number(1, 3), self.number(1, 3))
        return Window((kernel[0], kernel[1]), stride, dilation, (pads[0], pads[1], pads[2], pads[3]))


def _conv(b: Builder, x: str) -> str:
    ic = b.shape(x)[1]
    groups = b.draw(st.sampled_from([g for g in (1, 1, 1, ic, 3, 4) if ic % g == 0]))
    if groups == ic and ic > 1 and b.number(0, 2):
        oc = ic
    else:
        oc = groups * b.draw(st.sampled_from([1, 2, 5, 8] if groups > 1 else CHANNELS))
    return conv(b, x, groups, oc)


def conv(b: Builder, x: str, groups: int, oc: int) -> str:
    """A convolution to `oc` channels, with or without a residual and a table."""
    ic = b.shape(x)[1]
    if groups == oc and ic > groups:
        groups = 1
    window = b.window(b.shape(x), dilated=True)
    weights = b.rng.integers(-127, 128, (oc, ic // groups, *window.kernel), np.int8)
    gain = 1 / (60 * np.sqrt(weights[0].size))
    factors = [quantize_multiplier(float(gain * (1 + i % 3))) for i in range(oc)]
    multipliers, shifts = tuple(f.multiplier for f in factors), tuple(f.shift for f in factors)
    table = tuple(b.rng.integers(-128, 128, 256).tolist()) if b.number(0, 4) == 4 else None
    zero_point, low = b.number(-128, 127), b.number(-128, 0)
    parameters = [b.constant(weights), b.constant(b.rng.integers(-3000, 3000, oc, np.int32))]
    plain = QConv(
        window, groups, b.zero_point(x), zero_point, multipliers, shifts, bool(b.number(0, 1)), (low, 127), table
    )
    kind = plain.infer(*(b.values[name] for name in (x, *parameters)))[0]
    others = [name for name, value in b.values.items() if value.shape == kind.shape and value.dtype == "int8"]
    others = [name for name in others if name not in b.constants]
    if others and b.number(0, 1):
        other = others[b.number(0, len(others) - 1)]
        rescales = addition_rescales(0.05, 0.04, 0.06)
        residual = Residual(20, *rescales, b.number(-128, 127), (-100, 127), b.zero_point(other))
        fused = QConv(**{**plain.__dict__, "residual": residual})
        return b.add(fused, [x, *parameters, other], zero_point)
    return b.add(plain, [x, *parameters], zero_point)


def _pool(b: Builder, x: str) -> str:
    window = b.window(b.shape(x), dilated=False)
    if b.number(0, 1):
        return b.add(QMaxPool(window, (b.number(-128, 0), 127)), [x], b.zero_point(x))
    return b.add(QAveragePool(window, FULL, bool(b.number(0, 1)), b.zero_point(x)), [x], b.zero_point(x))


def _mean(b: Builder, x: str) -> str:
    zero_point = b.number(-128, 127)
    return b.add(QMean(quantize_multiplier(1.5), b.zero_point(x), zero_point, FULL), [x], zero_point)


def _binary(b: Builder, x: str) -> str:
    shape = b.shape(x)
    others = [y for y, kind in b.values.items() if _broadcasts(kind, shape) and y not in b.constants]
    if b.number(0, 3) == 0:
        side = tuple(size if b.number(0, 1) else 1 for size in shape)
        y = b.constant(b.rng.integers(-128, 128, side, np.int8))
    else:
        y = others[b.number(0, len(others) - 1)]
    zero_point = b.number(-128, 127)
    points = (b.zero_point(x), b.zero_point(y), zero_point)
    pair = [x, y]
    if b.number(0, 2) == 0:
        return b.add(QMul(quantize_multiplier(0.02), *points, FULL), pair, zero_point)
    rescales = addition_rescales(0.05, 0.07, 0.06)
    return b.add(QAdd(20, *rescales, *points, FULL, bool(b.number(0, 1))), pair, zero_point)


def _broadcasts(kind: TensorType, shape: tuple[int, ...]) -> bool:
    return (
        kind.dtype == "int8"
        and len(kind.shape) == len(shape)
        and all(a in (1, b) for a, b in zip(kind.shape, shape, strict=True))
    )


def _softmax(b: Builder, x: str) -> str:
    return b.add(QSoftmax(*softmax_scale(1.0, 0.05), b.draw(st.sampled_from([1, 1, 3]))), [x], -128)


def _lookup(b: Builder, x: str) -> str:
    return b.add(Lookup(tuple(b.rng.integers(-128, 128, 256).tolist())), [x], b.number(-128, 127))


def _resize(b: Builder, x: str) -> str:
    return b.add(ResizeNearest((b.number(1, 3), b.number(1, 2))), [x], b.zero_point(x))


def _pad(b: Builder, x: str) -> str:
    before, after = (tuple(b.number(0, 2) if axis else 0 for axis in range(4)) for _ in range(2))
    return b.add(Pad(before, after, b.zero_point(x)), [x], b.zero_point(x))


def _slice(b: Builder, x: str) -> str:
    starts, stops, steps = [], [], []
    for size in b.shape(x):
        starts.append(b.number(0, size - 1) if b.number(0, 1) else 0)
        stops.append(b.number(starts[-1] + 1, size) if b.number(0, 1) else size)
        steps.append(b.number(1, 2) if b.number(0, 3) == 3 else 1)
    return b.add(Slice(tuple(starts), tuple(stops), tuple(steps)), [x], b.zero_point(x))


def _concat(b: Builder, x: str) -> str:
    axis = b.draw(st.sampled_from([1, 1, 2, 3]))
    rest = [size for i, size in enumerate(b.shape(x)) if i != axis]
    others = [
        y for y, kind in b.values.items()
        if y not in b.constants and [s for i, s in enumerate(kind.shape) if i != axis] == rest
    ]  # fmt: skip
    parts = [x, *(others[b.number(0, len(others) - 1)] for _ in range(b.number(1, 2)))]
    return b.add(Concat(axis), parts, b.zero_point(x))


def _transpose(b: Builder, x: str) -> str:
    perm = b.draw(st.permutations(range(len(b.shape(x)))))  # type: ignore[arg-type]
    return b.add(Transpose(tuple(perm)), [x], b.zero_point(x))  # type: ignore[arg-type]


def _reshape(b: Builder, x: str) -> str:
    left, shape = int(np.prod(b.shape(x))), []
    for _ in range(3):
        shape.append(b.draw(st.sampled_from([d for d in range(1, 40) if left % d == 0])))
        left //= shape[-1]
    return b.add(Reshape((shape[0], left, *shape[1:])), [x], b.zero_point(x))


GROWERS = (
    _conv, _conv, _conv, _pool, _mean, _binary, _binary, _softmax, _lookup, _resize, _pad, _slice, _concat, _concat,
    _transpose, _reshape,
)  # fmt: skip


WIDTHS = (16, 17, 24, 33, 40)
"""Channels of networks whose kernels run in slices of them."""


@st.composite
def channelwise_networks(draw: st.DrawFn) -> Graph:
    """Convolutions to more than one block of channels, and behind them what computes channel by channel."""
    b = Builder(draw, np.random.default_rng(draw(st.integers(0, 1 << 16))))
    shape = (1, b.draw(st.sampled_from((1, 3, 17))), b.number(1, 9), b.number(1, 9))
    b.values["x0"] = TensorType("int8", shape, QuantParams(0.05, b.number(-128, 127)))
    b.inputs.append("x0")
    x = conv(b, "x0", 1, b.draw(st.sampled_from(WIDTHS)))
    for _ in range(b.number(1, 5)):
        kind = b.number(0, 6)
        if kind < 3:
            grown = conv(b, x, b.shape(x)[1], b.shape(x)[1]) if kind else conv(b, x, 1, b.draw(st.sampled_from(WIDTHS)))
        else:
            grown = draw(st.sampled_from((_pool, _lookup, _binary, _resize, _mean)))(b, x)
        if b.values[grown].n_elements > LARGEST:
            break
        x = grown
    read = {name for node in b.nodes for name in node.inputs}
    outputs = tuple(node.outputs[0] for node in b.nodes if node.outputs[0] not in read)
    return verify(Graph("channelwise", tuple(b.nodes), b.values, b.constants, ("x0",), outputs))


@st.composite
def networks(draw: st.DrawFn, most_nodes: int = 6) -> Graph:
    """A graph of 1..most_nodes operators; what nobody reads is an output."""
    b = Builder(draw, np.random.default_rng(draw(st.integers(0, 1 << 16))))
    for i in range(draw(st.integers(1, 2))):
        shape = (
            b.draw(st.sampled_from([1, 1, 1, 2])),
            b.draw(st.sampled_from(CHANNELS)),
            b.number(1, 9),
            b.number(1, 9),
        )
        b.values[f"x{i}"] = TensorType("int8", shape, QuantParams(0.05, b.number(-128, 127)))
        b.inputs.append(f"x{i}")
    for _ in range(draw(st.integers(1, most_nodes))):
        names = [name for name in b.values if name not in b.constants]
        x = names[max(b.number(0, len(names) - 1), b.number(0, len(names) - 1))]
        before = len(b.nodes)
        name = draw(st.sampled_from(GROWERS))(b, x)
        if b.values[name].n_elements > LARGEST:
            del b.nodes[before:], b.values[name]
    read = {name for node in b.nodes for name in node.inputs}
    outputs = tuple(node.outputs[0] for node in b.nodes if node.outputs[0] not in read)
    used = tuple(name for name in b.inputs if name in read)
    values = {name: kind for name, kind in b.values.items() if name not in b.inputs or name in used}
    return verify(Graph("random", tuple(b.nodes), values, b.constants, used, outputs))


def random_inputs(graph: Graph, seed: int) -> Mapping[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, graph.values[name].shape, np.int8) for name in graph.inputs}


def parted(graph: Graph, target: Target) -> Partition:
    """Kernels of a network as the compiler makes them; an example that the target cannot run is left out."""
    shaped = run_passes(run_passes(graph, INTEGER_PASSES), HARDWARE_PASSES)
    try:
        return partition(legalize(shaped, target), target)
    except NpucError:
        assume(False)
        raise
