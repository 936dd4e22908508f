"""Random integer operators as graphs of one node: every kind and attribute, extremes, ties and memory orders."""

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from hypothesis import strategies as st

from isa.arithmetic import softmax_scale
from npuc.firmware.graph_runner import Backend, KernelProgram, lower_to_kernels, run_program
from npuc.graph.graph import Graph, Node, evaluate, type_of_array, verify
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv, Residual
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.indexing import ArgMax, GatherNd, IndexArithmetic
from npuc.ops.integer.lstm import QLstm
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.integer.rescale import Rescale
from npuc.ops.integer.resize import QResizeBilinear
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.integer.squash import Squash
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, ResizeNearest, Slice, Transpose
from npuc.ops.window import Window

Drawn = TypeVar("Drawn")

INT8 = st.one_of(st.sampled_from([-128, -1, 0, 1, 127]), st.integers(-128, 127))

def mostly(likely: st.SearchStrategy[Drawn], rare: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    """Seven draws of eight from `likely`: results that saturate hide what came before."""
    return st.integers(0, 7).flatmap(lambda n: rare if n == 7 else likely)


CLAMP = mostly(st.just((-128, 127)), st.tuples(INT8, INT8).map(lambda pair: (min(pair), max(pair))))
INT16 = st.one_of(st.sampled_from([-32768, -1, 0, 1, 32767]), st.integers(-32768, 32767))
CLAMPS = {
    "int8": CLAMP,
    "int16": mostly(st.just((-32768, 32767)), st.tuples(INT16, INT16).map(lambda pair: (min(pair), max(pair)))),
}
DTYPES_SMALL: st.SearchStrategy[Literal["int8", "int16"]] = st.sampled_from(["int8", "int16"])
SMALL = st.integers(1, 3)
SIZES = st.tuples(st.integers(1, 2), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
# Powers of two make ties; the ends of the range make the largest products.
MULTIPLIER = st.one_of(
    mostly(st.just(1 << 30), st.sampled_from([0, (1 << 31) - 1])), st.integers(1 << 30, (1 << 31) - 1)
)
TABLE = st.integers(0, 1 << 32).map(
    lambda seed: tuple(np.random.default_rng(seed).integers(-128, 128, 256).tolist())
)  # fmt: skip
INDEX_FUNCTION: st.SearchStrategy[Literal["add", "sub", "mul", "floor_div"]] = st.sampled_from(
    ["add", "sub", "mul", "floor_div"]
)
# Groups, input and output channels of each: dense, depthwise, grouped, on both sides of the kernel's block of channels.
GROUPS = [(1, 1, 3), (1, 5, 2), (1, 19, 33), (2, 2, 2), (3, 1, 1), (3, 1, 2), (35, 1, 1), (2, 3, 9)]
DTYPES = st.sampled_from(["int8", "uint8", "int16", "int32", "float32", "int64", "bool"])


@dataclass(frozen=True)
class Case:
    """An operator, its operands, the position of those that are constants, and how values lie in memory."""

    op: Op
    operands: list[Array]
    constants: tuple[int, ...]
    shuffle: int | None

    def graph(self) -> Graph:
        """The one node as a graph."""
        names = [f"x{i}" for i in range(len(self.operands))]
        kinds = {name: type_of_array(array) for name, array in zip(names, self.operands, strict=True)}
        (y,) = self.op.infer(*kinds.values())
        constants = {names[i]: self.operands[i] for i in self.constants}
        inputs = tuple(name for name in names if name not in constants)
        node = Node("node", self.op, tuple(names), ("y",))
        return verify(Graph("case", (node,), {**kinds, "y": y}, constants, inputs, ("y",)))

    def program(self) -> KernelProgram:
        """Its kernel calls."""
        graph = self.graph()
        if self.shuffle is None:
            return lower_to_kernels(graph)
        rng = np.random.default_rng(self.shuffle)
        orders = {name: tuple(rng.permutation(len(kind.shape)).tolist()) for name, kind in graph.values.items()}
        return lower_to_kernels(graph, orders.__getitem__)


def check(case: Case, backend: Backend) -> None:
    """The backend gives the bytes of the operator's reference."""
    program = case.program()
    feeds = {name: case.operands[int(name[1:])] for name in program.graph.inputs}
    expected = evaluate(program.graph, feeds)["y"]
    got = run_program(program, feeds, backend)["y"]
    assert got.dtype == expected.dtype
    assert np.array_equal(got, expected, equal_nan=got.dtype.kind == "f")


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...], dtype: str = "int8") -> Array:
    """Integers of the whole range, or its two ends only, or one value."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    if dtype == "float32":
        return rng.standard_normal(shape).astype(np.float32)
    if dtype == "bool":
        return rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    limits = np.iinfo(dtype)
    chosen = draw(st.sampled_from(["any", "ends", "one"]))
    if chosen == "ends":
        return rng.choice(np.array([limits.min, limits.max], dtype), shape)
    if chosen == "one":
        return np.full(shape, rng.integers(limits.min, limits.max, endpoint=True), dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@st.composite
def factors(draw: st.DrawFn, near: int, smallest_shift: int = 2) -> Rescale:
    """Mostly shifts of `near` and up to three more."""
    shift = draw(mostly(st.integers(near, near + 3), st.integers(smallest_shift, 62)))
    return Rescale(draw(MULTIPLIER), shift)


@st.composite
def windows(draw: st.DrawFn, *, is_pool: bool, max_dilation: int = 2) -> Window:
    kernel = draw(st.tuples(SMALL, SMALL))
    dilation = draw(st.tuples(*[st.integers(1, max_dilation)] * 2))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    top, left, bottom, right = (draw(st.integers(0, reach[axis % 2] - 1 if is_pool else 3)) for axis in range(4))
    return Window(kernel, draw(st.tuples(SMALL, SMALL)), dilation, (top, left, bottom, right))


def input_size(window: Window, extra: tuple[int, int]) -> list[int]:
    """Rows and columns that hold the window even without its pads."""
    return [(k - 1) * d + e for k, d, e in zip(window.kernel, window.dilation, extra, strict=True)]


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Op, list[Array], tuple[int, ...]]:
    groups, depth, multiple = draw(st.sampled_from(GROUPS))
    oc, is_unsigned = groups * multiple, draw(st.booleans())
    window = draw(windows(is_pool=False))
    size = input_size(window, draw(st.tuples(SMALL, SMALL)))
    n, zero_point = draw(st.integers(1, 2)), draw(INT8)
    # Sums of n products of random signs are near 2^12 sqrt(n).
    near = 36 + (depth * window.kernel[0] * window.kernel[1]).bit_length() // 2
    scales = [draw(factors(near)) for _ in range(min(oc, 3))]
    scales = [scales[i % len(scales)] for i in range(oc)]
    residual = None
    if draw(st.booleans()):
        residual = Residual(*draw(additions()), draw(INT8), draw(CLAMP), draw(INT8))
    table = draw(st.none() | TABLE)
    dtype = draw(DTYPES_SMALL) if residual is None and table is None else "int8"
    op = QConv(
        window, groups, zero_point + 128 * is_unsigned, draw(INT8),
        tuple(scale.multiplier for scale in scales), tuple(scale.shift for scale in scales),
        draw(st.booleans()), draw(CLAMPS[dtype]), table, residual, draw(mostly(st.just(0), INT8)), dtype,
    )  # fmt: skip
    bias = draw(arrays((oc,), "int32")) >> draw(mostly(st.integers(14, 22), st.integers(0, 31)))
    operands = [draw(arrays((n, groups * depth, *size), "uint8" if is_unsigned else "int8")),
                draw(arrays((oc, depth, *window.kernel))), bias]  # fmt: skip
    if residual:
        operands.append(draw(arrays((n, oc, *window.output_shape(*size)))))
    return op, operands, (1, 2)


@st.composite
def additions(draw: st.DrawFn) -> tuple[int, Rescale, Rescale, Rescale]:
    """Left shift and the three factors of a rescaled sum."""
    left = draw(mostly(st.just(20), st.integers(0, 23)))
    return left, draw(factors(32, 32)), draw(factors(32, 32)), draw(factors(min(max(29 + left, 2), 59)))


@st.composite
def pairs(draw: st.DrawFn, dtypes: tuple[str, str] = ("int8", "int8")) -> list[Array]:
    """Two operands that broadcast."""
    shape = draw(SIZES)
    shapes = [tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in shape) for _ in range(2)]
    return [draw(arrays(s, dtype)) for s, dtype in zip(shapes, dtypes, strict=True)]


@st.composite
def elementwise(draw: st.DrawFn) -> tuple[Op, list[Array], tuple[int, ...]]:
    kind = draw(st.sampled_from(["add", "mul", "table"]))
    if kind == "table":
        shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
        table, (source, result) = draw(TABLE), draw(st.tuples(*[st.sampled_from(["int8", "uint8"])] * 2))
        entries = tuple(entry + 128 for entry in table) if result == "uint8" else table
        return Lookup(entries, result), [draw(arrays(shape, source))], ()
    constants = draw(st.sampled_from([(), (0,), (1,)]))
    dtypes, result = draw(mostly(st.just(("int8", "int8")), st.tuples(DTYPES_SMALL, DTYPES_SMALL))), draw(DTYPES_SMALL)
    # Wide operands are symmetric.
    first, second = (draw(INT8) if dtype == "int8" else 0 for dtype in dtypes)
    offset, clamp = draw(INT8), draw(CLAMPS[result])
    if kind == "mul":
        op: Op = QMul(draw(factors(draw(st.sampled_from([28, 36])))), first, second, offset, clamp, result)
        return op, draw(pairs(dtypes)), constants
    left, *scales = draw(additions())
    left = left if dtypes == ("int8", "int8") else min(left, 15)
    op = QAdd(left, scales[0], scales[1], scales[2], first, second, offset, clamp, draw(st.booleans()), result)
    return op, draw(pairs(dtypes)), constants


@st.composite
def pools(draw: st.DrawFn) -> tuple[Op, list[Array], tuple[int, ...]]:
    kind, zero_point = draw(st.sampled_from(["max", "average", "mean", "bilinear"])), draw(INT8)
    if kind == "bilinear":
        convention = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
        size = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
        return QResizeBilinear(size, *convention), [draw(arrays(draw(SIZES)))], ()
    if kind == "mean":
        return QMean(draw(factors(29)), zero_point, draw(INT8), draw(CLAMP)), [draw(arrays(draw(SIZES)))], ()
    window = draw(windows(is_pool=True, max_dilation=2 if kind == "max" else 1))
    x = draw(arrays((draw(SMALL), draw(SMALL), *input_size(window, draw(st.tuples(SMALL, SMALL))))))
    if kind == "max":
        return QMaxPool(window, draw(CLAMP)), [x], ()
    return QAveragePool(window, draw(CLAMP), draw(st.booleans()), zero_point, draw(st.booleans())), [x], ()


@st.composite
def softmaxes(draw: st.DrawFn) -> tuple[Op, list[Array], tuple[int, ...]]:
    near = softmax_scale(1.0, draw(st.floats(1e-3, 1)))
    scale = draw(st.one_of(st.just(near), st.tuples(st.integers(1 << 30, (1 << 31) - 1), st.integers(0, 31))))
    return QSoftmax(*scale, draw(st.integers(0, 3))), [draw(arrays(draw(SIZES)))], ()


@st.composite
def moves(draw: st.DrawFn) -> tuple[Op, list[Array], tuple[int, ...]]:
    kind = draw(st.sampled_from(["reshape", "transpose", "slice", "concat", "pad", "resize"]))
    dtype = draw(DTYPES)
    if kind == "resize":
        return ResizeNearest(draw(st.tuples(SMALL, SMALL))), [draw(arrays(draw(SIZES), dtype))], ()
    rank = draw(st.integers(1, 5))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    x = draw(arrays(shape, dtype))
    if kind == "reshape":
        return Reshape(draw(st.sampled_from([(x.size,), (1, x.size), (*shape[::-1],), (*shape, 1)]))), [x], ()
    if kind == "transpose":
        return Transpose(tuple(draw(st.permutations(range(rank))))), [x], ()
    if kind == "slice":
        return draw(slices(shape)), [x], ()
    widths = st.lists(st.integers(0, 2), min_size=rank, max_size=rank).map(tuple)
    if kind == "pad":
        return Pad(draw(widths), draw(widths), float(draw(st.integers(0, 127)))), [x], ()
    axis = draw(st.integers(0, rank - 1))
    sizes = draw(st.lists(st.integers(1, 3), max_size=3))
    others = [draw(arrays((*shape[:axis], n, *shape[axis + 1 :]), dtype)) for n in sizes]
    return Concat(axis), [x, *others], ()


@st.composite
def slices(draw: st.DrawFn, shape: tuple[int, ...]) -> Slice:
    chosen = []
    for size in shape:
        start, last = draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
        step = draw(st.integers(1, 3)) * (1 if start <= last else -1)
        chosen.append((start, last + (1 if step > 0 else -1), step))
    starts, stops, steps = zip(*chosen, strict=True)
    return Slice(starts, stops, steps)


@st.composite
def sequences(draw: st.DrawFn) -> tuple[Op, list[Array], tuple[int, ...]]:
    """An LSTM, or the functions of its gates."""
    bits = draw(st.integers(0, 15))
    kind = draw(st.sampled_from(["lstm", "tanh", "sigmoid"]))
    if kind == "sigmoid":
        return Squash("sigmoid"), [draw(arrays(draw(SIZES), "int16"))], ()
    if kind == "tanh":
        return Squash("tanh", bits), [draw(arrays(draw(SIZES), "int16"))], ()
    batch, steps, k, units = draw(st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 5), st.integers(1, 6)))
    gates = st.tuples(*[factors(31)] * 4)
    op = QLstm(
        draw(INT8), draw(INT8), draw(gates), draw(gates), draw(factors(44)), draw(factors(44)), draw(factors(52)), bits,
        draw(mostly(st.just(0), st.integers(1, 32767))),
    )  # fmt: skip
    shapes = ((batch, steps, k), (4 * units, k), (4 * units, units))
    bias = draw(arrays((4 * units,), "int32")) >> draw(mostly(st.integers(14, 22), st.integers(1, 31)))
    return op, [*(draw(arrays(shape)) for shape in shapes), bias], (1, 2, 3)


@st.composite
def indexings(draw: st.DrawFn) -> tuple[Op, list[Array], tuple[int, ...]]:
    kind = draw(st.sampled_from(["arg_max", "arithmetic", "gather"]))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    dtype = draw(DTYPES)
    if kind == "arithmetic":
        first, second = draw(arrays(shape, "int32")), draw(arrays(shape[draw(st.integers(0, len(shape))) :], "int32"))
        function = draw(INDEX_FUNCTION)
        if function == "floor_div":  # numpy warns of what the kernels define
            second = np.where((second == 0) | ((second == -1) & (first == -(1 << 31)).any()), 7, second)
        else:
            second >>= draw(st.sampled_from([0, 20, 30]))
        return IndexArithmetic(function), [first, second.astype(np.int32)], draw(st.sampled_from([(), (1,)]))
    data = draw(arrays(shape, dtype))
    if kind == "arg_max":
        data = np.where(data > data.mean(), data.max(), data).astype(dtype) if draw(st.booleans()) else data
        if dtype == "float32" and draw(st.booleans()):
            data.reshape(-1)[draw(st.integers(0, data.size - 1))] = np.nan
        return ArgMax(draw(st.integers(0, len(shape) - 1)), draw(st.sampled_from(["int32", "int64"]))), [data], ()
    depth = draw(st.integers(1, len(shape)))
    rows = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    indices = np.random.default_rng(draw(st.integers(0, 1 << 32))).integers(-2, 6, (*rows, depth)).astype(np.int32)
    return GatherNd(), [data, indices], draw(st.sampled_from([(), (0,), (1,)]))


FAMILIES = {
    "convolution": convolutions,
    "elementwise": elementwise,
    "pool": pools,
    "softmax": softmaxes,
    "sequence": sequences,
    "index": indexings,
    "move": moves,
}


@st.composite
def cases(draw: st.DrawFn, families: tuple[str, ...] = tuple(FAMILIES)) -> Case:
    """Any operator of these families."""
    op, operands, constants = draw(FAMILIES[draw(st.sampled_from(families))]())
    return Case(op, operands, constants, draw(st.none() | st.integers(0, 1 << 32)))
