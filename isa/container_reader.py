"""Reads a `.npu` file and trusts nothing: whatever the bytes are, the result is a valid Container or an IsaError."""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from typing import Any, NoReturn

from isa.container_format import (
    CONSTANTS_OFFSET,
    CONTAINER_HEADER,
    CONTAINER_VERSION,
    DIRECTIONS,
    DTYPES,
    IO_ENTRY,
    IO_HEADER,
    ISA_VERSION,
    MAGIC,
    MAX_CONTAINER_BYTES,
    MAX_IO_ENTRIES,
    MAX_JSON_DEPTH,
    MAX_METADATA_BYTES,
    MAX_RANK,
    MAX_SECTIONS,
    REQUIRED,
    SECTION_ENTRY,
    TABLE_OFFSET,
    Container,
    IoEntry,
    Section,
    align,
    check_io,
)
from isa.errors import IsaError
from isa.record import decode_record

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def read_container(data: bytes) -> Container:
    """The contents of a file; IsaError, one line with a byte offset, for whatever a writer would not have written."""
    header = _read_header(data)
    found = _read_table(data, header["section_count"])
    for kind in (Section.DESCRIPTORS, Section.INSTRUCTIONS):
        offset, length = found[kind]
        if length % 8:
            _fail(offset, f"section {kind.name.lower()} has {length} bytes, allowed: a multiple of 8")

    def content(kind: Section) -> bytes:
        offset, length = found.get(kind, (0, 0))
        return bytes(data[offset : offset + length])

    return Container(
        target_name=_text(header["target_name"], 32),
        fingerprint=header["fingerprint"].to_bytes(8, "little").hex(),
        constants=content(Section.CONSTANTS),
        descriptors=content(Section.DESCRIPTORS),
        instructions=content(Section.INSTRUCTIONS),
        io=_read_io(content(Section.IO), found[Section.IO][0]),
        metadata=_read_metadata(content(Section.METADATA), found[Section.METADATA][0]),
        arm_calls=content(Section.ARM_CALLS),
        state=content(Section.STATE),
        reference=content(Section.REFERENCE),
        signature=content(Section.SIGNATURE),
    )


def _fail(offset: int, message: str) -> NoReturn:
    raise IsaError(f"byte {offset}: {message}")


def _read_header(data: bytes) -> dict[str, int]:
    if data[:4] != MAGIC.to_bytes(4, "little"):
        _fail(0, "not an npuc program: the first bytes are not NPUC")
    if len(data) < CONSTANTS_OFFSET:
        _fail(len(data), f"truncated: {len(data)} bytes, header and section table have {CONSTANTS_OFFSET}")
    try:
        header = decode_record(CONTAINER_HEADER, data[:TABLE_OFFSET])
    except IsaError as error:
        _fail(0, str(error))
    if header["container_version"] != CONTAINER_VERSION:
        _fail(4, f"container version {header['container_version']}, allowed: {CONTAINER_VERSION}")
    crc = zlib.crc32(bytes(data[: TABLE_OFFSET - 4]) + bytes(data[TABLE_OFFSET:CONSTANTS_OFFSET]))
    if header["header_crc"] != crc:
        _fail(TABLE_OFFSET - 4, f"header checksum {header['header_crc']:#010x}, computed {crc:#010x}")
    version = (header["isa_major"], header["isa_minor"])
    if version[0] != ISA_VERSION[0] or version > ISA_VERSION:
        allowed = f"{ISA_VERSION[0]}.0 to {ISA_VERSION[0]}.{ISA_VERSION[1]}"
        _fail(6, f"instruction set version {version[0]}.{version[1]}, allowed: {allowed}")
    if header["total_bytes"] != len(data) or len(data) > MAX_CONTAINER_BYTES:
        _fail(16, f"header says {header['total_bytes']} bytes, the file has {len(data)}, limit {MAX_CONTAINER_BYTES}")
    if header["section_count"] > MAX_SECTIONS:
        _fail(20, f"{header['section_count']} sections, allowed: {MAX_SECTIONS}")
    return header


def _text(stored: int, length: int) -> str:
    text = stored.to_bytes(length, "little").rstrip(b"\0").decode("latin-1")
    if not text or not text.isascii() or not text.isprintable():
        _fail(24, "the target name is not printable ASCII")
    return text


def _read_table(data: bytes, count: int) -> dict[Section, tuple[int, int]]:
    """(offset, length) of every section; they lie in order of kind, back to back, aligned and zero padded."""
    found: dict[Section, tuple[int, int]] = {}
    expected = CONSTANTS_OFFSET
    for i in range(MAX_SECTIONS):
        place = TABLE_OFFSET + i * SECTION_ENTRY.length_bytes
        row = data[place : place + SECTION_ENTRY.length_bytes]
        if i < count:
            kind, length = _read_entry(data, place, decode_record(SECTION_ENTRY, row), expected)
            if found and kind <= max(found):
                _fail(place, f"section {kind.name.lower()} is repeated or out of order")
            found[kind] = (expected, length)
            expected = align(expected + length)
        elif any(row):
            _fail(place, "unused entry of the section table is not zero")
    if expected != len(data):
        _fail(expected, f"the sections end here, the file has {len(data)} bytes")
    for kind in REQUIRED:
        if kind not in found:
            _fail(TABLE_OFFSET, f"section {kind.name.lower()} is missing")
    return found


def _read_entry(data: bytes, place: int, row: dict[str, int], expected: int) -> tuple[Section, int]:
    if row["kind"] not in Section.__members__.values():
        _fail(place, f"section kind {row['kind']}, allowed: 1 to {max(Section)}")
    kind, offset, length = Section(row["kind"]), row["offset"], row["length"]
    name = f"section {kind.name.lower()}"
    if offset != expected:
        _fail(place + 4, f"{name} begins at {offset}, allowed: {expected}, directly behind the one before")
    end, padded = offset + length, align(offset + length)
    if padded > len(data):
        _fail(place + 8, f"{name} ends at byte {padded}, the file has {len(data)}")
    if length == 0 and kind not in REQUIRED:
        _fail(place + 8, f"{name} is empty, allowed: to leave it out")
    crc = zlib.crc32(memoryview(data)[offset:end])
    if crc != row["crc"]:
        _fail(place + 12, f"checksum of {name} is {row['crc']:#010x}, computed {crc:#010x}")
    if any(data[end:padded]):
        _fail(end, f"padding behind {name} is not zero")
    return kind, length


def _read_io(section: bytes, offset: int) -> tuple[IoEntry, ...]:
    header = decode_record(IO_HEADER, section[: IO_HEADER.length_bytes])
    count = header["entry_count"]
    if count > MAX_IO_ENTRIES:
        _fail(offset, f"{count} inputs and outputs, allowed: {MAX_IO_ENTRIES}")
    first_name = IO_HEADER.length_bytes + count * IO_ENTRY.length_bytes
    if len(section) != first_name + header["names_bytes"]:
        _fail(offset, f"i/o section has {len(section)} bytes, its header says {first_name + header['names_bytes']}")
    names = section[first_name:]
    entries = []
    name_offset = 0
    for i in range(count):
        place = IO_HEADER.length_bytes + i * IO_ENTRY.length_bytes
        try:
            values = decode_record(IO_ENTRY, section[place : place + IO_ENTRY.length_bytes])
            entries.append(_io_entry(values, names, name_offset))
        except IsaError as error:
            _fail(offset + place, str(error))
        name_offset += values["name_length"]
    if name_offset != len(names):
        _fail(offset + first_name + name_offset, "bytes behind the last name")
    if len({(entry.direction, entry.name) for entry in entries}) < count:
        _fail(offset, "two inputs or two outputs have the same name")
    return tuple(entries)


def _io_entry(values: dict[str, int], names: bytes, name_offset: int) -> IoEntry:
    length, rank = values["name_length"], values["rank"]
    if values["name_offset"] != name_offset or name_offset + length > len(names):
        raise IsaError(f"name at {values['name_offset']} with {length} bytes, allowed: at {name_offset}, all inside")
    for key, count in (("direction", len(DIRECTIONS)), ("dtype", len(DTYPES)), ("host_dtype", len(DTYPES))):
        if values[key] >= count:
            raise IsaError(f"{key} {values[key]}, allowed: 0 to {count - 1}")
    dims = [values[f"dim_{i}"] for i in range(MAX_RANK)]
    if values["half_even"] > 1 or rank > MAX_RANK or any(dims[rank:]):
        raise IsaError(f"half_even {values['half_even']}, rank {rank}, dimensions {dims} contradict each other")
    try:
        name = names[name_offset : name_offset + length].decode("utf-8")
    except UnicodeDecodeError:
        raise IsaError("the name is not UTF-8") from None
    (scale,) = struct.unpack("<f", values["scale"].to_bytes(4, "little"))
    entry = IoEntry(
        name=name,
        direction=DIRECTIONS[values["direction"]],
        dtype=DTYPES[values["dtype"]],
        shape=tuple(dims[:rank]),
        address=values["address"],
        scale=scale,
        zero_point=values["zero_point"],
        host_dtype=DTYPES[values["host_dtype"]],
        half_even=bool(values["half_even"]),
        n_bytes=values["n_bytes"],
    )
    check_io(entry)
    return entry


def _read_metadata(section: bytes, offset: int) -> dict[str, Any]:
    if len(section) > MAX_METADATA_BYTES:
        _fail(offset, f"metadata has {len(section)} bytes, allowed: {MAX_METADATA_BYTES}")
    depth = 0
    for token in _TOKEN.finditer(section):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token.group(), 0)
        if depth > MAX_JSON_DEPTH:
            _fail(offset + token.start(), f"metadata is nested more than {MAX_JSON_DEPTH} deep")
    try:
        value = json.loads(
            section.decode("utf-8"), parse_float=_finite, parse_constant=_finite, object_pairs_hook=_unique
        )
    except ValueError as error:
        _fail(offset, f"metadata is not JSON: {str(error).splitlines()[0].lower()}")
    if not isinstance(value, dict):
        _fail(offset, "metadata is not a JSON object")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"number {text[:20]}, allowed: finite")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key is repeated")
    return value
