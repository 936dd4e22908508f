"""Copies and fills against loops over bytes."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.machine import Machine
from simulator.memory import Array
from simulator.program import load
from tests.simulator.assemble import SRAM_BYTES, Assembly, sram

Fields = dict[str, int]


def run(assembly: Assembly, memory: Array) -> bytes:
    return Machine(load(assembly.container())).run({"sram": memory})["sram"].tobytes()


def random_memory(seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 256, SRAM_BYTES, dtype=np.uint8)


@st.composite
def copies(draw: st.DrawFn) -> Fields:
    """Sizes up to 4 in each dimension, any source strides, destination strides that do not overlap."""
    fields = {f"size_{i}": draw(st.integers(1, 4)) for i in range(4)}
    step = fields["size_0"]
    for i in (1, 2, 3):
        fields[f"source_{i}"] = draw(st.integers(0, 100))
        fields[f"destination_{i}"] = step + draw(st.integers(0, 3))
        step = fields[f"destination_{i}"] * fields[f"size_{i}"]
    return fields


def offsets(fields: Fields, side: str) -> Iterator[int]:
    for a, b, c, d in product(*(range(fields[f"size_{i}"]) for i in (3, 2, 1, 0))):
        yield a * fields[f"{side}_3"] + b * fields[f"{side}_2"] + c * fields[f"{side}_1"] + d


@given(copies(), st.integers(0, 1000))
def test_strided_load_moves_every_byte_of_flash(fields: Fields, seed: int) -> None:
    assembly, memory = Assembly(), random_memory(seed)
    constants = memory[::-1][:2000].tobytes()
    source = assembly.constant(constants)
    assembly.add("dma.load4", {"source": source, "destination": sram(77)}, fields)
    expected = bytearray(memory)
    for i, j in zip(offsets(fields, "source"), offsets(fields, "destination"), strict=True):
        expected[77 + j] = constants[i]
    assert run(assembly, memory) == expected


@given(copies(), st.integers(0, 1000))
def test_strided_store_moves_every_byte_of_sram(fields: Fields, seed: int) -> None:
    assembly, memory = Assembly(), random_memory(seed)
    assembly.add("dma.store4", {"source": sram(5000), "destination": sram(77)}, fields)
    expected = bytearray(memory)
    for i, j in zip(offsets(fields, "source"), offsets(fields, "destination"), strict=True):
        expected[77 + j] = memory[5000 + i]
    assert run(assembly, memory) == expected


@given(copies(), st.integers(0, 255))
def test_fill_writes_its_value_to_every_byte(fields: Fields, value: int) -> None:
    assembly, memory = Assembly(), random_memory(0)
    assembly.add("dma.fill", {"destination": sram(123), "value": value}, fields)
    expected = bytearray(memory)
    for j in offsets(fields, "destination"):
        expected[123 + j] = value
    assert run(assembly, memory) == expected


def test_load_and_store_move_contiguous_bytes() -> None:
    assembly, memory = Assembly(), random_memory(1)
    source = assembly.constant(bytes(range(200)))
    assembly.add("dma.load", {"source": source + 3, "destination": sram(1001), "length": 100})
    assembly.add("dma.store", {"source": sram(1001), "destination": sram(4003), "length": 90})
    expected = bytearray(memory)
    expected[1001:1101] = bytes(range(3, 103))
    expected[4003:4093] = bytes(range(3, 93))
    assert run(assembly, memory) == expected
