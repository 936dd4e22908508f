"""Removing constant channels keeps every byte, whatever is constant, and leaves what carries something."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuc.graph.graph import Graph, Node, evaluate, type_of_array, verify
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.ops.integer.conv import QConv
from npuc.ops.window import Window
from npuc.passes.remove_constant_channels import remove_constant_channels
from npuc.passes.rule import Misses

CHANNELS, IMAGE = 6, TensorType("int8", (1, 3, 7, 7), QuantParams(0.5, -7))
POINT, PADDED = Window((1, 1)), Window((3, 3), pads=(1, 1, 1, 1))
SOME = st.sets(st.integers(0, CHANNELS - 1))


def chain(layers: list[tuple[QConv, Array, Array]], outputs: tuple[str, ...] = ()) -> Graph:
    """Convolutions one behind the other, each with weights and bias."""
    nodes: list[Node] = []
    values, constants = {"x": IMAGE}, dict[str, Array]()
    value = "x"
    for i, (op, weights, bias) in enumerate(layers):
        constants |= {f"w{i}": weights, f"b{i}": bias}
        values |= {f"w{i}": type_of_array(weights), f"b{i}": type_of_array(bias)}
        (found,) = op.infer(values[value], values[f"w{i}"], values[f"b{i}"])
        nodes.append(Node(f"conv{i}", op, (value, f"w{i}", f"b{i}"), (f"y{i}",)))
        value = f"y{i}"
        values[value] = replace(found, quant=QuantParams(0.25, op.output_zero_point))
    return verify(Graph("chain", tuple(nodes), values, constants, ("x",), outputs or (value,)))


def conv(window: Window, n_outputs: int, zero_points: tuple[int, int], *, depthwise: bool = False,
         weight_zero_point: int = 0, table: bool = False) -> QConv:  # fmt: skip
    entries = tuple(int(v) for v in np.random.default_rng(3).integers(-128, 128, 256)) if table else None
    return QConv(
        window, n_outputs if depthwise else 1, *zero_points, (1 << 30,) * n_outputs, (38,) * n_outputs, True,
        (zero_points[1], 127), entries, weight_zero_point=weight_zero_point,
    )  # fmt: skip


def removed(graph: Graph) -> Graph:
    return verify(remove_constant_channels(graph, Misses()))


def n_channels(graph: Graph) -> list[int]:
    return [len(node.op.multipliers) for node in graph.nodes if isinstance(node.op, QConv)]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 30), n_depthwise=st.integers(0, 2), dead=SOME, unread=SOME, flat=SOME,
    zero_point=st.integers(-2, 2), table=st.booleans(),
    windows=st.tuples(*[st.sampled_from((POINT, PADDED, Window((2, 2), (2, 2))))] * 4),
)  # fmt: skip
def test_every_byte_stays(seed: int, n_depthwise: int, dead: set[int], unread: set[int], flat: set[int],
                          zero_point: int, table: bool, windows: tuple[Window, ...]) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)

    def layer(window: Window, n_inputs: int, n_outputs: int, number: int) -> tuple[QConv, Array, Array]:
        depthwise = 0 < number <= n_depthwise
        op = conv(window, n_outputs, (-7 if number == 0 else 2, 2), depthwise=depthwise, table=table and number == 0,
                  weight_zero_point=zero_point)  # fmt: skip
        shape = (n_outputs, 1 if depthwise else n_inputs, *window.kernel)
        return op, rng.integers(-100, 101, shape).astype(np.int8), rng.integers(-9000, 9000, n_outputs).astype(np.int32)

    layers = [layer(windows[0], 3, CHANNELS, 0)]
    layers += [layer(windows[1 + i], CHANNELS, CHANNELS, 1 + i) for i in range(n_depthwise)]
    layers.append(layer(windows[3], CHANNELS, 4, 1 + n_depthwise))
    layers[0][1][sorted(dead)] = zero_point
    layers[n_depthwise][1][sorted(flat)] = zero_point
    layers[-1][1][:, sorted(unread)] = zero_point
    try:
        graph = chain(layers)
    except ValueError:
        return  # a window does not fit the image
    x = rng.integers(-128, 128, IMAGE.shape).astype(np.int8)
    found = removed(graph)
    name = graph.outputs[0]
    assert np.array_equal(evaluate(found, {"x": x})[name], evaluate(graph, {"x": x})[name])
    gone = max(len(unread), len(flat) if windows[3] == POINT else 0)
    assert all(n <= max(CHANNELS - gone, 1) for n in n_channels(found)[:-1])


def planted(dead_bias: int, last: Window) -> Graph:
    """Channel 2 between two convolutions is constant: its zero point if `dead_bias` is negative."""
    rng = np.random.default_rng(0)
    first, bias = rng.integers(1, 100, (CHANNELS, 3, 1, 1)).astype(np.int8), np.zeros(CHANNELS, np.int32)
    first[2], bias[2] = 0, dead_bias
    second = rng.integers(1, 100, (4, CHANNELS, *last.kernel)).astype(np.int8)
    return chain([
        (conv(POINT, CHANNELS, (-7, 2)), first, bias), (conv(last, 4, (2, 0)), second, np.zeros(4, np.int32)),
    ])  # fmt: skip


@pytest.mark.parametrize(("dead_bias", "last", "kept"), [
    (-1000, PADDED, CHANNELS - 1), (90000, PADDED, CHANNELS), (90000, POINT, CHANNELS - 1),
])  # fmt: skip
def test_a_constant_next_to_padding_stays_unless_it_is_zero(dead_bias: int, last: Window, kept: int) -> None:
    assert n_channels(removed(planted(dead_bias, last))) == [kept, 4]


def test_what_is_an_output_too_stays_whole() -> None:
    graph = replace(planted(-1000, POINT), outputs=("y0", "y1"))
    misses: Misses = {}
    assert n_channels(remove_constant_channels(graph, misses)) == [CHANNELS, 4]
    assert "private" in misses["conv1"].reason


def test_a_bias_that_would_overflow_keeps_its_channel() -> None:
    graph = planted(90000, POINT)
    bias = np.full(4, np.iinfo(np.int32).max, np.int32)
    graph = replace(graph, constants={**graph.constants, "b1": bias})
    assert n_channels(removed(graph)) == [CHANNELS, 4]
