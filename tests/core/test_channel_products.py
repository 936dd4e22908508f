"""Products with a factor for each channel: the array multiplies by weights that another layer has computed."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.arithmetic import mul, quantize_multiplier, requantize
from isa.target_file import load_target
from npuc.compiler import Compiled, Options, compile_model
from npuc.emit.certificate import certify_cycles
from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.lower.kernel import Kernel
from npuc.lower.product_on_array import product_on_array
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import QMul
from npuc.ops.integer.rescale import Rescale
from npuc.ops.structure import Slice
from npuc.ops.window import Window
from npuc.partition import partition
from npuc.verify import verify_program
from simulator.machine import Machine
from simulator.program import load

TARGETS = ("u55-like", "edge-256")
FULL = (-128, 127)
UNIT = (1 << 30, 30)
"""Multiplier and shift of the factor 1."""


@dataclass(frozen=True)
class Shape:
    """Batch entries of image and factors, channels, rows and pixels; `first`: channels of the factors' tensor that come
    before those that are used."""

    n: int = 1
    factors_n: int = 1
    channels: int = 24
    rows: int = 6
    pixels: int = 5
    first: int = 0


def point_conv(channels: int, zero_point: int, *, groups: int = 1, factor: tuple[int, int] = UNIT) -> QConv:
    scales = (factor[0],) * channels, (factor[1],) * channels
    return QConv(Window((1, 1)), groups, zero_point, zero_point, *scales, True, FULL)


def network(shape: Shape, op: QMul, rng: np.random.Generator, *, swapped: bool = False) -> Graph:
    """conv(conv(x) * conv(s)[first:]), everything that a product of channels meets in a network."""
    c, all_c, hw = shape.channels, shape.channels + shape.first, (shape.rows, shape.pixels)
    points = (op.second_zero_point, op.first_zero_point) if swapped else (op.first_zero_point, op.second_zero_point)
    quants = {name: QuantParams(0.1, point) for name, point in zip("xs", points, strict=True)}
    small = (1 << 30, 36)
    convs = {"y": ("x", point_conv(c, points[0], factor=small)), "t": ("s", point_conv(all_c, points[1], factor=small)),
             "z": ("p", point_conv(5, op.output_zero_point, factor=(1 << 30, 40)))}  # fmt: skip
    depth = {"y": 7, "t": 9, "z": c}
    constants: dict[str, Array] = {}
    for name, (_, conv) in convs.items():
        n_out = len(conv.multipliers)
        constants[f"{name}.w"] = rng.integers(-128, 128, (n_out, depth[name], 1, 1)).astype(np.int8)
        constants[f"{name}.b"] = rng.integers(-999, 999, n_out).astype(np.int32)
    values = {
        "x": TensorType("int8", (shape.n, 7, *hw), quants["x"]),
        "y": TensorType("int8", (shape.n, c, *hw), quants["x"]),
        "s": TensorType("int8", (shape.factors_n, 9, 1, 1), quants["s"]),
        "t": TensorType("int8", (shape.factors_n, all_c, 1, 1), quants["s"]),
        "f": TensorType("int8", (shape.factors_n, c, 1, 1), quants["s"]),
        "p": TensorType("int8", (shape.n, c, *hw), QuantParams(0.1, op.output_zero_point)),
        "z": TensorType("int8", (shape.n, 5, *hw), QuantParams(0.1, op.output_zero_point)),
    }  # fmt: skip
    values |= {name: TensorType(array.dtype.name, array.shape) for name, array in constants.items()}  # type: ignore[arg-type]
    cut = Slice((0, shape.first, 0, 0), (shape.factors_n, all_c, 1, 1), (1, 1, 1, 1))
    nodes = [Node(name, conv, (source, f"{name}.w", f"{name}.b"), (name,)) for name, (source, conv) in convs.items()]
    pair = ("f", "y") if swapped else ("y", "f")
    middle = [Node("cut", cut, ("t",), ("f",)), Node("mul", op, pair, ("p",))]
    return verify(Graph("product", (*nodes[:2], *middle, nodes[2]), values, constants, ("x", "s"), ("z",)))


def check(graph: Graph, target: str, rng: np.random.Generator, sram_bytes: int | None = None) -> Compiled:
    """Compile, prove, run in strict mode; all bytes are those of the reference."""
    compiled = compile_model(graph, None, Options(load_target(target), sram_bytes=sram_bytes, strip=True))
    verdict = verify_program(compiled.program, compiled.debug_map, sram_bytes=sram_bytes)
    assert verdict.ok, (verdict.races + verdict.findings)[0].message
    inputs = {name: rng.integers(-128, 128, graph.values[name].shape).astype(np.int8) for name in graph.inputs}
    got = Machine(load(compiled.program), sram_bytes, strict=True).run(inputs)
    assert np.array_equal(got["z"], evaluate(graph, inputs)["z"])
    assert compiled.report["cycles"]["lower_bound"] <= compiled.report["cycles"]["predicted"]
    return compiled


def test_the_bound_of_a_product_counts_its_factors_as_weights(rng: np.random.Generator) -> None:
    op = QMul(Rescale(1275558024, 38), -128, -128, 5, FULL)
    kernel = product_kernel(network(Shape(channels=64, rows=56, pixels=56), op, rng), "u55-like")
    assert kernel.mnemonic == "mac.depthwise"
    elements = 64 * 56 * 56
    bound = certify_cycles([kernel], load_target("u55-like"), 1 << 20).cycles
    assert 2 * elements // 8 <= bound < 2.1 * elements // 8


def unit_of(compiled: Compiled) -> str:
    return next(line.split()[2] for line in compiled.schedule.splitlines() if line.startswith('compute "mul"'))


def product_kernel(graph: Graph, target: str) -> Kernel:
    return next(kernel for kernel in partition(graph, load_target(target)).kernels if kernel.node == "mul")


POINTS = st.tuples(*[st.sampled_from([-128, -5, 0, 77, 127])] * 3)
SHAPES = st.builds(
    Shape, n=st.just(1), factors_n=st.just(1), channels=st.sampled_from([2, 8, 17, 24, 33, 72]),
    rows=st.integers(1, 9), pixels=st.integers(2, 9), first=st.sampled_from([0, 0, 3, 16]),
)  # fmt: skip


@settings(max_examples=10)
@given(shape=SHAPES, points=POINTS, real=st.floats(1e-5, 0.9), seed=st.integers(0, 99), swapped=st.booleans())
@pytest.mark.parametrize("target", TARGETS)
def test_random_products_equal_their_reference(
    target: str, shape: Shape, points: tuple[int, int, int], real: float, seed: int, swapped: bool
) -> None:
    rng = np.random.default_rng(seed)
    check(network(shape, QMul(quantize_multiplier(real), *points, FULL), rng, swapped=swapped), target, rng)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [
    Shape(channels=40, rows=14, pixels=14), Shape(channels=33, rows=14, pixels=14),
    Shape(channels=64, rows=9, pixels=14, first=16), Shape(n=3, channels=24, rows=8, pixels=8),
    Shape(n=3, factors_n=3, channels=24, rows=8, pixels=8),
])  # fmt: skip
def test_the_array_multiplies_images_by_factors_of_their_channels(
    target: str, shape: Shape, rng: np.random.Generator
) -> None:
    op = QMul(Rescale(1275558024, 38), -128, -128, 5, (-100, 90))
    assert unit_of(check(network(shape, op, rng), target, rng)) == "mac.depthwise"
    assert unit_of(check(network(shape, op, rng, swapped=True), target, rng)) == "mac.depthwise"


@pytest.mark.parametrize("target", TARGETS)
def test_products_in_stripes_read_all_factors(target: str, rng: np.random.Generator) -> None:
    op = QMul(Rescale(1275558024, 38), -128, -128, 5, FULL)
    graph = network(Shape(channels=48, rows=24, pixels=24), op, rng)
    whole = check(graph, target, rng).report["sram"]["peak_bytes"]
    assert unit_of(check(graph, target, rng, int(whole * 0.5))) == "mac.depthwise"


@pytest.mark.parametrize(("target", "factor", "points"), [
    ("u55-like", (1275558024, 38), (-128, -128, -128)), ("edge-256", ((1 << 31) - 1, 31), (127, -128, 5)),
])  # fmt: skip
def test_all_pairs_of_bytes_give_the_product_of_the_reference(
    target: str, factor: tuple[int, int], points: tuple[int, int, int]
) -> None:
    graph, inputs = all_pairs(QMul(Rescale(*factor), *points, FULL))
    compiled = compile_model(graph, None, Options(load_target(target), strip=True))
    assert unit_of(compiled) == "mac.depthwise"
    got = Machine(load(compiled.program), strict=True).run(inputs)["z"]
    product = mul(inputs["x"], inputs["f"], *points[:2], Rescale(*factor), points[2], *FULL)
    assert np.array_equal(got, product)
    assert np.array_equal(got, evaluate(graph, inputs)["z"])


def all_pairs(op: QMul) -> tuple[Graph, dict[str, Array]]:
    """256 pixels of all values in each of 256 channels with a factor of each value; dense layers pass them on."""
    constants: dict[str, Array] = {"w": np.eye(256, dtype=np.int8)[:, :, None, None], "b": np.zeros(256, np.int32)}
    image, result = (TensorType("int8", (1, 256, 16, 16), QuantParams(0.1, point))
                     for point in (op.first_zero_point, op.output_zero_point))  # fmt: skip
    values = {
        "x": image, "y": image, "p": result, "z": result, "w": TensorType("int8", (256, 256, 1, 1)),
        "f": TensorType("int8", (1, 256, 1, 1), QuantParams(0.1, op.second_zero_point)),
        "b": TensorType("int32", (256,)),
    }  # fmt: skip
    nodes = (
        Node("before", point_conv(256, op.first_zero_point), ("x", "w", "b"), ("y",)),
        Node("mul", op, ("y", "f"), ("p",)),
        Node("behind", point_conv(256, op.output_zero_point), ("p", "w", "b"), ("z",)),
    )
    every = np.arange(-128, 128).astype(np.int8)
    inputs: dict[str, Array] = {
        "x": np.broadcast_to(every.reshape(1, 1, 16, 16), (1, 256, 16, 16)).copy(),
        "f": every.reshape(1, 256, 1, 1),
    }
    return verify(Graph("pairs", nodes, values, constants, ("x", "f"), ("z",))), inputs


def test_requantization_of_a_product_is_the_product_of_the_reference(rng: np.random.Generator) -> None:
    every = np.arange(-128, 128)
    for _ in range(200):
        factor = Rescale(int(rng.integers(1 << 30, 1 << 31)), int(rng.integers(2, 63)))
        first, second, zero_point = (int(point) for point in rng.integers(-128, 128, 3))
        product = (every[:, None] - first) * (every - second)
        expected = mul(every[:, None], every, first, second, factor, zero_point, -128, 127)
        got = requantize(product, factor.multiplier, factor.shift, zero_point, -128, 127, True)
        assert np.array_equal(got, expected)


def test_products_of_other_shapes_and_types_stay_on_the_vector_unit(rng: np.random.Generator) -> None:
    op = QMul(Rescale(1 << 30, 36), 3, 3, 5, FULL)
    kernel = product_kernel(network(Shape(rows=1, pixels=1), op, rng), "edge-256")
    assert kernel.mnemonic == "vec.mul"
    assert product_on_array(kernel) is None
    kernel = product_kernel(network(Shape(channels=1), op, rng), "edge-256")
    assert kernel.mnemonic == "vec.mul"
    assert product_on_array(kernel) is None


def test_the_result_takes_over_the_bytes_of_the_image(rng: np.random.Generator) -> None:
    op = QMul(Rescale(1 << 30, 36), 3, 3, 5, FULL)
    kernel = product_kernel(network(Shape(channels=40, rows=14, pixels=14), op, rng), "u55-like")
    assert kernel.mnemonic == "mac.depthwise"
    assert kernel.ifm is not None
    assert kernel.ifm.storage == kernel.ofm.storage
