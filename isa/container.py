"""The `.npu` container: what it holds, how it is written; `read_container` trusts nothing.

Equal containers have equal bytes. The constants come first at CONSTANTS_OFFSET, the descriptors directly behind them
at `descriptors_offset`, so that an emitter knows every flash address before it writes the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

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
    REQUIRED,
    SECTION_ENTRY,
    Container,
    IoEntry,
    Section,
    align,
    check_io,
    descriptors_offset,
)
from isa.container_reader import read_container
from isa.errors import IsaError
from isa.record import encode_record

__all__ = [
    "CONSTANTS_OFFSET",
    "CONTAINER_VERSION",
    "ISA_VERSION",
    "Container",
    "IoEntry",
    "Section",
    "descriptors_offset",
    "read_container",
    "save",
    "section_offsets",
    "write_container",
]


def write_container(container: Container) -> bytes:
    """The bytes of the file; IsaError for whatever a reader would refuse."""
    _check(container)
    sections = _sections(container)
    data = bytearray(CONSTANTS_OFFSET)
    table = b""
    for kind, content in sections.items():
        row = {"kind": kind, "offset": len(data), "length": len(content), "crc": zlib.crc32(content)}
        table += encode_record(SECTION_ENTRY, row)
        data += content
        data += bytes(align(len(data)) - len(data))
        if len(data) > MAX_CONTAINER_BYTES:
            raise IsaError(f"program has more than {MAX_CONTAINER_BYTES} bytes, the reach of a flash address")
    values = {
        "magic": MAGIC,
        "container_version": CONTAINER_VERSION,
        "isa_major": ISA_VERSION[0],
        "isa_minor": ISA_VERSION[1],
        "fingerprint": int.from_bytes(bytes.fromhex(container.fingerprint), "little"),
        "total_bytes": len(data),
        "section_count": len(sections),
        "target_name": int.from_bytes(container.target_name.encode("ascii"), "little"),
    }
    table = table.ljust(CONSTANTS_OFFSET - CONTAINER_HEADER.length_bytes, b"\0")
    crc = zlib.crc32(encode_record(CONTAINER_HEADER, values)[:-4] + table)
    data[:CONSTANTS_OFFSET] = encode_record(CONTAINER_HEADER, {**values, "header_crc": crc}) + table
    return bytes(data)


def section_offsets(container: Container) -> dict[Section, int]:
    """Byte offset of every section in the file that `write_container` makes."""
    offsets = {}
    offset = CONSTANTS_OFFSET
    for kind, content in _sections(container).items():
        offsets[kind] = offset
        offset = align(offset + len(content))
    return offsets


def save(path: str | Path, data: bytes) -> None:
    """Write a file as a whole or not at all: to a temporary name in its folder, then renamed.

    IsaError when that is not possible; nothing is left behind then.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():
            raise IsaError(f"{path}: is not a regular file")
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError as error:
        raise IsaError(f"{path}: cannot write: {(error.strerror or str(error)).lower()}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _check(container: Container) -> None:
    name = container.target_name
    if not name.isascii() or not name.isprintable() or not 1 <= len(name) <= 32:
        raise IsaError(f"target name {name!r}, allowed: 1 to 32 printable ASCII characters")
    digits = container.fingerprint
    if len(digits) != 16 or set(digits) - set("0123456789abcdef"):
        raise IsaError(f"fingerprint {digits!r}, allowed: 16 hexadecimal digits")
    for kind, content in ((Section.DESCRIPTORS, container.descriptors), (Section.INSTRUCTIONS, container.instructions)):
        if len(content) % 8:
            raise IsaError(f"section {kind.name.lower()} has {len(content)} bytes, allowed: a multiple of 8")


def _sections(container: Container) -> dict[Section, bytes]:
    contents = {
        Section.CONSTANTS: container.constants,
        Section.DESCRIPTORS: container.descriptors,
        Section.INSTRUCTIONS: container.instructions,
        Section.IO: _io_section(container.io),
        Section.STATE: container.state,
        Section.ARM_CALLS: container.arm_calls,
        Section.METADATA: _metadata_section(container.metadata),
        Section.SIGNATURE: container.signature,
        Section.REFERENCE: container.reference,
    }
    return {kind: content for kind, content in contents.items() if content or kind in REQUIRED}


def _io_section(entries: tuple[IoEntry, ...]) -> bytes:
    if len(entries) > MAX_IO_ENTRIES:
        raise IsaError(f"program has {len(entries)} inputs and outputs, allowed: {MAX_IO_ENTRIES}")
    if len({(entry.direction, entry.name) for entry in entries}) < len(entries):
        raise IsaError("two inputs or two outputs have the same name")
    records, names = b"", b""
    for entry in entries:
        check_io(entry)
        try:
            name = entry.name.encode("utf-8")
        except UnicodeEncodeError:
            raise IsaError(f"i/o entry {entry.name[:80]!r}: the name is not valid Unicode") from None
        records += encode_record(IO_ENTRY, _io_values(entry, len(names), len(name)))
        names += name
    return encode_record(IO_HEADER, {"entry_count": len(entries), "names_bytes": len(names)}) + records + names


def _io_values(entry: IoEntry, name_offset: int, name_length: int) -> dict[str, int]:
    try:
        scale = struct.pack("<f", entry.scale)
    except OverflowError:
        raise IsaError(f"i/o entry {entry.name[:80]!r}: scale = {entry.scale}, which float32 cannot hold") from None
    return {
        "name_offset": name_offset,
        "name_length": name_length,
        "direction": DIRECTIONS.index(entry.direction),
        "dtype": DTYPES.index(entry.dtype),
        "host_dtype": DTYPES.index(entry.host_dtype),
        "half_even": int(entry.half_even),
        "rank": len(entry.shape),
        "address": entry.address,
        "n_bytes": entry.n_bytes,
        "scale": int.from_bytes(scale, "little"),
        "zero_point": entry.zero_point,
        **{f"dim_{i}": length for i, length in enumerate(entry.shape)},
    }


def _metadata_section(metadata: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise IsaError(f"metadata cannot be written as JSON: {str(error).splitlines()[0].lower()}") from None
    if len(text) > MAX_METADATA_BYTES:
        raise IsaError(f"metadata has {len(text)} bytes, allowed: {MAX_METADATA_BYTES}")
    if _depth(metadata) > MAX_JSON_DEPTH:
        raise IsaError(f"metadata is nested more than {MAX_JSON_DEPTH} deep")
    return text.encode("ascii")


def _depth(value: object) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
    return 0 if children is None else 1 + max(map(_depth, children), default=0)
