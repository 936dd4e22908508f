"""Containers round-trip byte for byte, and no damage goes unnoticed or raises anything but IsaError."""

import stat
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.container import (
    CONSTANTS_OFFSET,
    Container,
    IoEntry,
    Section,
    descriptors_offset,
    read_container,
    save,
    section_offsets,
    write_container,
)
from isa.container_format import SECTION_ENTRY, TABLE_OFFSET
from isa.descriptors import Memory, address
from isa.errors import IsaError

IMAGE = IoEntry("image", "in", "int8", (1, 3, 4, 4), address(Memory.SRAM, 64), 0.5, -3, "float32", True, 48)
SCORES = IoEntry("Ergebnis/größe", "out", "float32", (10,), address(Memory.SRAM, 0), 0.0, 0, "float32", False, 40)
PROGRAM = Container(
    target_name="edge-256",
    fingerprint="b73d468a1667e8b3",
    constants=b"weights" * 20,
    descriptors=bytes(reversed(range(16))),
    instructions=b"\x01\x02\x03\x04\x05\x06\x07\x08" * 3,
    io=(IMAGE, SCORES),
    metadata={"sram": {"peak_bytes": 1024}, "rates": [[4, 3], 1.5, None, True], "tool": "npuc 0.1.0"},
    arm_calls=b"call",
    reference=b"graph",
)
DATA = write_container(PROGRAM)


def test_a_program_survives_the_file() -> None:
    assert read_container(DATA) == PROGRAM
    assert write_container(read_container(DATA)) == DATA


def test_constants_and_descriptors_lie_where_the_emitter_expects_them() -> None:
    offsets = section_offsets(PROGRAM)
    assert offsets[Section.CONSTANTS] == CONSTANTS_OFFSET
    assert offsets[Section.DESCRIPTORS] == descriptors_offset(len(PROGRAM.constants))
    assert DATA[CONSTANTS_OFFSET:].startswith(PROGRAM.constants)
    assert DATA[offsets[Section.DESCRIPTORS] :].startswith(PROGRAM.descriptors)
    assert all(offset % 64 == 0 for offset in offsets.values())


def test_an_empty_program_survives_the_file() -> None:
    empty = Container("edge-64", "0" * 16, b"", b"", b"", ())
    assert read_container(write_container(empty)) == empty


def test_the_order_of_metadata_keys_does_not_show() -> None:
    turned = replace(PROGRAM, metadata=dict(reversed(PROGRAM.metadata.items())))
    assert write_container(turned) == DATA


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
words = st.binary(max_size=40).map(lambda b: b[: len(b) // 8 * 8])


@st.composite
def io_entries(draw: st.DrawFn) -> IoEntry:
    dtype = draw(st.sampled_from(["int8", "uint8", "int16", "int32", "float32", "int64", "bool"]))
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=8)))
    return IoEntry(
        name=draw(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=9)),
        direction=draw(st.sampled_from(["in", "out"])),
        dtype=dtype,
        shape=shape,
        address=address(draw(st.sampled_from([Memory.SRAM, Memory.DRAM])), draw(st.integers(0, 1 << 20))),
        scale=draw(st.floats(0, 2.0**100, width=32)),
        zero_point=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        host_dtype=draw(st.sampled_from(["int8", "float32"])),
        half_even=draw(st.booleans()),
        n_bytes=int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize,
    )


@given(
    st.lists(io_entries(), max_size=4, unique_by=lambda e: (e.direction, e.name)).map(tuple),
    st.dictionaries(st.text(max_size=5), json_values, max_size=4),
    st.tuples(st.binary(max_size=200), words, words, st.binary(max_size=9), st.binary(max_size=9)),
)
def test_any_program_survives_the_file(
    io: tuple[IoEntry, ...], metadata: dict[str, Any], raw: tuple[bytes, bytes, bytes, bytes, bytes]
) -> None:
    constants, descriptors, code, state, signature = raw
    program = Container("t", "00ff" * 4, constants, descriptors, code, io, metadata, state=state, signature=signature)
    assert read_container(write_container(program)) == program


def test_every_flipped_bit_is_noticed() -> None:
    for bit in range(8 * len(DATA)):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(IsaError, match=r"^byte \d+: [^\n]*$"):
            read_container(bytes(damaged))


def test_every_truncation_is_noticed() -> None:
    for length in range(len(DATA)):
        with pytest.raises(IsaError, match=r"^byte \d+: "):
            read_container(DATA[:length])
    with pytest.raises(IsaError, match="header says"):
        read_container(DATA + bytes(64))


def seal(data: bytearray) -> bytes:
    """Correct every checksum, as an attacker would."""
    for place in range(TABLE_OFFSET, CONSTANTS_OFFSET, SECTION_ENTRY.length_bytes):
        kind, offset, length = struct.unpack_from("<III", data, place)
        if kind:
            struct.pack_into("<I", data, place + 12, zlib.crc32(data[offset : offset + length]))
    struct.pack_into("<I", data, 60, zlib.crc32(data[:60] + data[64:CONSTANTS_OFFSET]))
    return bytes(data)


@given(st.integers(0, len(DATA) - 1), st.binary(min_size=1, max_size=8))
def test_no_forged_file_raises_anything_else(place: int, patch: bytes) -> None:
    forged = bytearray(DATA)
    forged[place : place + len(patch)] = patch[: len(DATA) - place]
    try:
        program = read_container(seal(forged))
    except IsaError:
        return
    assert read_container(write_container(program)) == program


@given(st.binary(max_size=500))
def test_no_garbage_raises_anything_else(data: bytes) -> None:
    for start in (b"", b"NPUC"):
        with pytest.raises(IsaError):
            read_container(start + data)


def patch(offset: int, layout: str, value: int) -> Callable[[bytearray], None]:
    return lambda data: struct.pack_into(layout, data, offset, value)


IO_AT = section_offsets(PROGRAM)[Section.IO]
FORGED = {
    "newer container": (patch(4, "<H", 2), "byte 4: container version 2, allowed: 1"),
    "newer instruction set": (patch(7, "<B", 9), r"byte 6: instruction set version 1.9, allowed: 1.0 to 1.0"),
    "length": (patch(16, "<I", 64), "byte 16: header says 64 bytes"),
    "section count": (patch(20, "<I", 99), "byte 20: 99 sections, allowed: 16"),
    "fewer sections": (patch(20, "<I", 3), "unused entry of the section table is not zero"),
    "kind": (patch(TABLE_OFFSET, "<I", 77), "byte 64: section kind 77, allowed: 1 to 9"),
    "overlap": (patch(TABLE_OFFSET + 20, "<I", 320), "byte 84: section descriptors begins at 320, allowed: 512"),
    "repeated": (patch(TABLE_OFFSET + 16, "<I", 1), "byte 80: section constants is repeated or out of order"),
    "too long": (patch(TABLE_OFFSET + 8, "<I", 0xFFFFFFF0), "byte 72: section constants ends at byte"),
    "cut word": (patch(TABLE_OFFSET + 24, "<I", 15), "section descriptors has 15 bytes, allowed: a multiple of 8"),
    "padding": (patch(CONSTANTS_OFFSET + 150, "<B", 1), "byte 460: padding behind section constants is not zero"),
    "name": (patch(24, "<B", 7), "byte 24: the target name is not printable ASCII"),
    "io count": (patch(IO_AT, "<I", 1 << 30), "inputs and outputs, allowed: 4096"),
    "io name": (patch(IO_AT + 8, "<I", 5), "name at 5 with 5 bytes, allowed: at 0"),
    "io rank": (patch(IO_AT + 8 + 10, "<B", 200), "rank 200"),
    "io dtype": (patch(IO_AT + 8 + 7, "<B", 9), "dtype 9, allowed: 0 to 6"),
    "io address": (patch(IO_AT + 8 + 12, "<I", 64), "address = 0x40 for 48 bytes, allowed: inside sram or dram"),
    "io bytes": (patch(IO_AT + 8 + 16, "<I", 49), "n_bytes = 49, allowed for this shape and type: 48"),
    "io scale": (patch(IO_AT + 8 + 20, "<I", 0x7F800000), "scale = inf, allowed: finite"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_field_is_named(case: str) -> None:
    change, message = FORGED[case]
    forged = bytearray(DATA)
    change(forged)
    with pytest.raises(IsaError, match=message):
        read_container(seal(forged))


def with_metadata(text: bytes) -> bytes:
    """A program whose metadata section holds that text."""
    program = replace(PROGRAM, reference=b"", metadata={"x": "." * (len(text) - len('{"x":""}'))})
    data = bytearray(write_container(program))
    offset = section_offsets(program)[Section.METADATA]
    data[offset : offset + len(text)] = text
    return seal(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[1, 2, 3, 4]", "metadata is not a JSON object"),
        (b'{"a": 1, "a": 2}', "a key is repeated"),
        (b'{"a": Infinity}', "number infinity, allowed: finite"),
        (b'{"a": 1e999999}', "number 1e999999, allowed: finite"),
        (b'{"a": "\xff\xff\xff"}', "metadata is not JSON"),
        (b"[" * 5000, "metadata is nested more than 32 deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "metadata is not JSON"),
    ],
    ids=["list", "repeated", "infinity", "overflow", "utf-8", "deep", "digits"],
)
def test_hostile_metadata_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(IsaError, match=message):
        read_container(with_metadata(text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": "xyz"}, "fingerprint 'xyz', allowed: 16 hexadecimal digits"),
        ({"target_name": "größer"}, "target name 'größer', allowed: 1 to 32 printable ASCII"),
        ({"descriptors": b"abc"}, "section descriptors has 3 bytes, allowed: a multiple of 8"),
        ({"metadata": {"x": float("nan")}}, "metadata cannot be written as JSON"),
        ({"metadata": {"x": {1, 2}}}, "metadata cannot be written as JSON"),
        ({"io": (IMAGE, IMAGE)}, "the same name"),
        ({"io": (replace(IMAGE, n_bytes=47),)}, "i/o entry 'image': n_bytes = 47"),
        ({"io": (replace(IMAGE, shape=(0, 2)),)}, r"shape = \(0, 2\), allowed: at most 8 axes"),
        ({"io": (replace(IMAGE, direction="through"),)}, "direction = 'through', allowed: in, out"),
        ({"io": (replace(IMAGE, zero_point=1 << 40),)}, "zero_point = 1099511627776, allowed: "),
        ({"io": (replace(IMAGE, scale=1e300),)}, "which float32 cannot hold"),
        ({"io": (replace(IMAGE, name=""),)}, "allowed: a name of 1 to 4096 bytes"),
        ({"io": (replace(IMAGE, name="\ud800"),)}, "the name is not valid Unicode"),
    ],
)
def test_the_writer_refuses_what_a_reader_would(change: dict[str, Any], message: str) -> None:
    with pytest.raises(IsaError, match=message):
        write_container(replace(PROGRAM, **change))


def test_save_replaces_a_file_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "model.npu"
    path.write_bytes(b"old")
    save(path, DATA)
    assert path.read_bytes() == DATA
    assert stat.S_IMODE(path.stat().st_mode) & 0o400
    assert list(tmp_path.iterdir()) == [path]


def test_save_leaves_nothing_behind_when_it_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path, tmp_path / "gone" / "model.npu", tmp_path / "file" / "model.npu"):
        with pytest.raises(IsaError):
            save(path, DATA)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
