"""Integer graphs survive being written and read; a reader that is given anything else says so in one line."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from npuc.errors import ImportFailure, InvalidGraph
from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.serialize import graph_from_bytes, graph_to_bytes, operator_kinds
from npuc.graph.types import QuantParams, TensorType
from npuc.ops.elementwise import Clip
from npuc.ops.integer.conv import QConv, Residual
from npuc.ops.integer.elementwise import Lookup, QAdd
from npuc.ops.integer.floating import Dequantize
from npuc.ops.integer.rescale import Rescale
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, Slice, Transpose
from npuc.ops.window import Window

SHAPE = (1, 4, 5, 5)
HALF = Rescale(1 << 30, 31)


@pytest.fixture
def graph(rng: np.random.Generator) -> Graph:
    residual = Residual(20, HALF, HALF, Rescale(1 << 30, 50), 3, (-128, 127), -5)
    conv = QConv(
        Window((3, 3), pads=(1, 1, 1, 1)), 1, 7, -2, (1 << 30,) * 4, (38,) * 4, True, (-100, 127),
        table=tuple(range(-128, 128)), residual=residual,
    )  # fmt: skip
    nodes = (
        Node("conv", conv, ("x", "w", "b", "x"), ("c",), ("/conv", "/relu")),
        Node("table", Lookup(tuple(range(127, -129, -1))), ("c",), ("t",)),
        Node("add", QAdd(20, HALF, HALF, Rescale(1 << 30, 50), 1, 2, 3, (-128, 127)), ("t", "same"), ("s",)),
        Node("join", Concat(1), ("s", "t"), ("j",)),
        Node("pad", Pad((0, 0, 1, 0), (0, 0, 0, 0), -128), ("j",), ("p",)),
        Node("cut", Slice((0, 0, 5, 0), (1, 8, -1, 5), (1, 1, -1, 1)), ("p",), ("f",)),
        Node("turn", Transpose((0, 2, 3, 1)), ("f",), ("n",)),
        Node("flat", Reshape((1, 240)), ("n",), ("y",)),
    )
    weights = rng.integers(-127, 128, (4, 4, 3, 3), np.int8)
    other = rng.integers(-128, 128, SHAPE, np.int8)
    constants = {"w": weights, "b": rng.integers(-9, 9, 4, np.int32), "same": other, "unused": other.copy()}
    values = {name: TensorType(a.dtype.name, a.shape) for name, a in constants.items()}  # type: ignore[arg-type]
    shapes = {"c": SHAPE, "t": SHAPE, "s": SHAPE, "j": (1, 8, 5, 5), "p": (1, 8, 6, 5), "f": (1, 8, 6, 5),
              "n": (1, 6, 5, 8), "y": (1, 240)}  # fmt: skip
    values |= {name: TensorType("int8", shape) for name, shape in shapes.items()}
    values["x"] = TensorType("int8", SHAPE, QuantParams(0.1 + 0.2, 7))
    values["y"] = replace(values["y"], quant=QuantParams(1e-9, -3))
    x = replace(values["x"], quant=None)
    return verify(Graph("small", nodes, {**values, "x": x}, constants, ("x",), ("y",)))


def test_reading_gives_the_same_graph(graph: Graph, rng: np.random.Generator) -> None:
    read = graph_from_bytes(graph_to_bytes(graph))
    assert (read.nodes, read.values, read.inputs, read.outputs) == (
        graph.nodes, dict(graph.values), graph.inputs, graph.outputs,
    )  # fmt: skip
    inputs = {"x": rng.integers(-128, 128, SHAPE, np.int8)}
    assert np.array_equal(evaluate(read, inputs)["y"], evaluate(graph, inputs)["y"])


def test_bytes_do_not_depend_on_the_order_of_mappings(graph: Graph) -> None:
    turned = replace(
        graph,
        values=dict(reversed(list(graph.values.items()))),
        constants=dict(reversed(list(graph.constants.items()))),
    )
    assert graph_to_bytes(turned) == graph_to_bytes(graph)
    assert graph_to_bytes(graph_from_bytes(graph_to_bytes(graph))) == graph_to_bytes(graph)


def test_equal_constants_are_stored_once(graph: Graph) -> None:
    without = replace(
        graph, constants={name: array for name, array in graph.constants.items() if name != "unused"},
        values={name: kind for name, kind in graph.values.items() if name != "unused"},
    )  # fmt: skip
    assert len(graph_to_bytes(graph)) - len(graph_to_bytes(without)) < graph.constants["unused"].nbytes


def test_numpy_numbers_in_attributes_are_written_as_numbers(graph: Graph) -> None:
    shape: tuple[Any, ...] = (np.int64(1), 240)
    odd = replace(graph, nodes=(*graph.nodes[:-1], replace(graph.nodes[-1], op=Reshape(shape))))
    assert graph_to_bytes(odd) == graph_to_bytes(graph)


def test_every_operator_of_the_integer_families_is_known() -> None:
    assert {"QConv", "QAdd", "QMul", "Lookup", "QSoftmax", "QMaxPool", "Concat", "Pad"} <= operator_kinds().keys()
    assert "Op" not in operator_kinds()


def test_float_operators_between_integers_are_kept_with_infinite_bounds() -> None:
    kinds = {"x": TensorType("int8", (2, 3)), "a": TensorType("float32", (2, 3)), "y": TensorType("float32", (2, 3))}
    nodes = (Node("n0", Dequantize(0.5, 1), ("x",), ("a",)), Node("n1", Clip(-math.inf, math.inf), ("a",), ("y",)))
    graph = verify(Graph("mixed", nodes, kinds, {}, ("x",), ("y",)))
    assert graph_from_bytes(graph_to_bytes(graph)) == graph


@dataclass(frozen=True)
class Stranger(Op):
    """An operator of no family."""


def test_an_unknown_operator_is_refused(graph: Graph) -> None:
    odd = replace(graph, nodes=(*graph.nodes[:-1], replace(graph.nodes[-1], op=Stranger())))
    with pytest.raises(InvalidGraph, match="Stranger is no operator of an integer graph"):
        graph_to_bytes(odd)


EDITS = {
    "unknown operator": (b'"kind":"Concat"', b'"kind":"Concet"'),
    "missing attribute": (b'"axis":1', b'"axiz":1'),
    "attribute of a wrong type": (b'"axis":1', b'"axis":[]'),
    "axis out of range": (b'"axis":1', b'"axis":9'),
    "infinite number": (b'"value":-128', b'"value":1e99'.replace(b"99", b"999")),
    "negative dimension": (b'"shape":[1,240]', b'"shape":[1,-24]'),
    "huge dimension": (b'"shape":[1,240]', b'"shape":[9,9999999999]'),
    "undefined value": (b'"inputs":["n"]', b'"inputs":["q"]'),
    "cycle": (b'"inputs":["n"]', b'"inputs":["y"]'),
    "zero stride": (b'"stride":[1,1]', b'"stride":[0,1]'),
    "constant out of range": (b'"same":', b'"same":9'),
    "text for a number": (b'"groups":1', b'"groups":"1"'),
    "true for a number": (b'"groups":1', b'"groups":true'),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_header_that_contradicts_itself_is_refused(name: str, graph: Graph) -> None:
    found, replacement = EDITS[name]
    data = graph_to_bytes(graph)
    assert found in data
    n_header = int.from_bytes(data[4:8], "little")
    header = data[8 : 8 + n_header].replace(found, replacement, 1)
    refused(b"NPQG" + len(header).to_bytes(4, "little") + header + data[8 + n_header :])


def test_truncated_and_extended_bytes_are_refused(graph: Graph) -> None:
    data = graph_to_bytes(graph)
    for length in (0, 3, 7, 8, 50, len(data) - 1):
        refused(data[:length])
    refused(data + b"\0")
    refused(b"NPQG" + (200_000).to_bytes(4, "little") + b"[" * 200_000)


def test_flipped_bits_are_refused_or_give_a_verified_graph(graph: Graph, rng: np.random.Generator) -> None:
    data = graph_to_bytes(graph)
    for place in rng.integers(0, 8 * len(data), 400):
        broken = bytearray(data)
        broken[place // 8] ^= 1 << int(place % 8)
        try:
            verify(graph_from_bytes(bytes(broken)))
        except ImportFailure:
            continue


def refused(data: bytes) -> None:
    with pytest.raises(ImportFailure) as caught:
        graph_from_bytes(data)
    assert re.fullmatch(r"reference graph is malformed: [^\n]+", caught.value.message)
