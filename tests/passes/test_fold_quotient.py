"""Quotients of int8 tensors as products with reciprocals: exact for every pair of values, or left alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuc.graph.graph import Graph, evaluate
from npuc.graph.rewrite import Miss
from npuc.ops.integer.elementwise import Lookup
from npuc.ops.integer.floating import Dequantize, Quantize, Quotient
from npuc.passes import INTEGER_PASSES, run_passes
from npuc.passes.fold_quotient import find_factors
from npuc.passes.rule import Misses
from tests.passes.test_element_passes import graph_of, kinds

ALL = np.arange(-128, 128).astype(np.int8)
scales = st.floats(0.001, 2.0).map(lambda scale: float(np.float32(scale)))


def quotient_graph(first: Dequantize, second: Dequantize, result: Quantize, values: list[int]) -> Graph:
    """All pairs of an int8 and one of `values`."""
    shape = (1, 1, 256, len(values))
    divisors = Lookup(tuple(values[i % len(values)] for i in range(256)))
    return graph_of(
        {"a": ("int8", shape), "x": ("int8", shape)},
        [
            (divisors, ("x",), "b"),
            (first, ("a",), "c"),
            (second, ("b",), "d"),
            (Quotient(), ("c", "d"), "e"),
            (result, ("e",), "y"),
        ],
    )


@settings(max_examples=40)
@given(scales, scales, scales, st.integers(1, 250), st.integers(-128, 0))
def test_every_quotient_is_exact(first: float, second: float, result: float, smallest: int, zero: int) -> None:
    divisors = list(range(max(smallest, 4) - 128, 128))
    operators = Dequantize(first, -128), Dequantize(second, -128), Quantize(result, zero)
    graph = quotient_graph(*operators, divisors)
    folded = run_passes(graph, INTEGER_PASSES)
    a = np.broadcast_to(ALL[:, None], (256, len(divisors))).reshape(1, 1, 256, -1)
    x = np.broadcast_to(np.arange(len(divisors)) - 128, (256, len(divisors))).astype(np.int8).reshape(a.shape)
    feeds = {"a": a, "x": x}
    assert np.array_equal(evaluate(folded, feeds)["y"], evaluate(graph, feeds)["y"])


def test_a_quotient_becomes_three_tables_and_three_products() -> None:
    operators = Dequantize(1 / 256, -128), Dequantize(0.24958714842796326, -128), Quantize(0.0019921548664569855, -128)
    graph = quotient_graph(*operators, [*range(-121, 128)])
    assert sorted(kinds(run_passes(graph, INTEGER_PASSES))) == ["Lookup"] * 3 + ["QMul"] * 3


def test_a_reciprocal_that_misses_one_quotient_is_refused() -> None:
    """Steep quotients, which saturate, take the bits that flat ones need."""
    found = find_factors(Quantize(0.001, -128), Dequantize(0.2, -128), Dequantize(1.0, -128), ALL, ALL[1:])
    assert isinstance(found, Miss)
    assert found.reason.startswith("no reciprocal of ")


@pytest.mark.parametrize(("zero", "divisors"), [(0, [1, 2]), (-128, [-128, 5])])
def test_signs_and_zeros_decline(zero: int, divisors: list[int]) -> None:
    """A dividend below zero, and zero divided by zero."""
    graph = quotient_graph(Dequantize(1.0, zero), Dequantize(1.0, -128), Quantize(1.0, 0), divisors)
    reasons: list[str] = []

    def listen(name: str, graph: Graph, misses: Misses) -> None:
        reasons.extend(miss.reason for miss in misses.values() if name == "fold_quotient")

    assert "Quotient" in kinds(run_passes(graph, INTEGER_PASSES, listen))
    assert "an operand may be negative, or both zero" in reasons
