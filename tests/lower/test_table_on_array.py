"""Tables on the array: the bytes of the table, where that is worth it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.target_file import load_target
from npuc.compiler import Options, compile_model
from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import QuantParams, TensorType
from npuc.ops.integer.elementwise import Lookup
from npuc.partition import partition
from simulator.machine import Machine
from simulator.program import load

QUANT = QuantParams(0.1, 0)


def table(shape: tuple[int, ...], dtype: str = "int8") -> Graph:
    """Byte by byte through a table of random entries."""
    op = Lookup(tuple(np.random.default_rng(5).integers(-128, 128, 256).tolist()))
    x = TensorType("uint8" if dtype == "uint8" else "int8", shape, QUANT)
    values = {"x": x, "y": TensorType("int8", shape, QUANT)}
    return verify(Graph("table", (Node("op", op, ("x",), ("y",)),), values, {}, ("x",), ("y",)))


def mnemonics(graph: Graph, target: str) -> list[str]:
    return [kernel.mnemonic for kernel in partition(graph, load_target(target)).kernels]


@given(shape=st.lists(st.integers(1, 11), min_size=1, max_size=4), dtype=st.sampled_from(["int8", "uint8"]),
       scale=st.sampled_from([16, 32, 48]))  # fmt: skip
def test_every_byte_is_that_of_the_table(shape: list[int], dtype: str, scale: int) -> None:
    shape[-1] *= scale
    graph = table(tuple(shape), dtype)
    limits = np.iinfo(graph.values["x"].dtype)
    x = np.random.default_rng(1).integers(limits.min, limits.max + 1, shape).astype(limits.dtype)
    compiled = compile_model(graph, None, Options(load_target("u55-like"), strip=True))
    y = Machine(load(compiled.program), strict=True).run({"x": x})["y"]
    assert np.array_equal(y, evaluate(graph, {"x": x})["y"])


@pytest.mark.parametrize(
    ("shape", "target", "mnemonic"),
    [
        ((1, 192, 192, 3), "u55-like", "mac.depthwise"),
        ((1, 3, 64, 64), "u55-like", "mac.depthwise"),
        ((1, 192, 192, 3), "edge-256", "vec.table"),  # its tables are as fast as its output stage
        ((1, 16), "u55-like", "vec.table"),  # the constants would take longer than the table
        ((1, 1023, 5), "u55-like", "vec.table"),  # no whole number of pixels
    ],
)
def test_the_unit_is_the_one_that_is_faster(shape: tuple[int, ...], target: str, mnemonic: str) -> None:
    assert mnemonics(table(shape), target) == [mnemonic]


def test_a_table_is_much_shorter_on_the_array() -> None:
    compiled = compile_model(table((1, 96, 96, 3)), None, Options(load_target("u55-like"), strip=True))
    assert compiled.report["cycles"]["predicted"] < 96 * 96 * 3 / 3
