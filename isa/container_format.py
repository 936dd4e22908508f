"""The layout of a `.npu` file: header, section table, I/O entries, and the dataclasses that hold its contents."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from isa.descriptors import Memory
from isa.errors import IsaError
from isa.fields import Field, RecordSpec
from isa.instructions import CONDITIONS

CONTAINER_VERSION = 1
ISA_VERSION = (1, 0)
"""Major and minor; a minor version only adds opcodes, codec ids and descriptor values."""

MAGIC = int.from_bytes(b"NPUC", "little")
ALIGNMENT_BYTES = 64
"""Every section begins at a multiple of this and is padded with zeros to one."""

MAX_SECTIONS = 16
MAX_CONTAINER_BYTES = 1 << 30
"""A flash address has 30 bits."""

MAX_METADATA_BYTES = 1 << 24
MAX_JSON_DEPTH = 32
MAX_IO_ENTRIES = 4096
MAX_NAME_BYTES = 4096
MAX_RANK = 8


class Section(IntEnum):
    """Kinds of sections; a file holds them in this order, each at most once."""

    CONSTANTS = 1
    DESCRIPTORS = 2
    INSTRUCTIONS = 3
    IO = 4
    STATE = 5
    ARM_CALLS = 6
    METADATA = 7
    SIGNATURE = 8
    REFERENCE = 9


REQUIRED = (Section.CONSTANTS, Section.DESCRIPTORS, Section.INSTRUCTIONS, Section.IO, Section.METADATA)
"""Sections of every program; they may be empty, the others are left out when they are."""

CONTAINER_HEADER = RecordSpec(
    "container_header",
    "The first bytes of a program.",
    64,
    (
        Field("magic", 32, "the bytes NPUC"),
        Field("container_version", 16, "version of this layout"),
        Field("isa_major", 8, "major version of the instruction set"),
        Field("isa_minor", 8, "minor version of the instruction set"),
        Field("fingerprint", 64, "first 8 bytes of the SHA-256 of the target's architecture and limits"),
        Field("total_bytes", 32, "length of the program", unit="byte"),
        Field("section_count", 32, "used entries of the section table", unit="entry"),
        Field("target_name", 256, "name of the target, padded with zeros"),
        Field("reserved", 32, "zero"),
        Field("header_crc", 32, "CRC-32 of the header up to here and of the section table"),
    ),
)

SECTION_ENTRY = RecordSpec(
    "section_entry",
    "One entry of the section table behind the header; unused entries are zero.",
    16,
    (
        Field("kind", 32, "Section"),
        Field("offset", 32, "first byte, from the start of the program", unit="byte"),
        Field("length", 32, "bytes, padding not included", unit="byte"),
        Field("crc", 32, "CRC-32 of the section, padding not included"),
    ),
)

TABLE_OFFSET = CONTAINER_HEADER.length_bytes
CONSTANTS_OFFSET = TABLE_OFFSET + MAX_SECTIONS * SECTION_ENTRY.length_bytes
"""Flash offset of the first byte of the constants, which are always the first section."""

IO_HEADER = RecordSpec(
    "io_header",
    "Begins the I/O section; the entries follow, then the names in UTF-8, one after the other.",
    8,
    (
        Field("entry_count", 32, "inputs and outputs", unit="entry"),
        Field("names_bytes", 32, "bytes of all names", unit="byte"),
    ),
)

IO_ENTRY = RecordSpec(
    "io_entry",
    "One input or output of the program; its elements are dense, in the axis order of the source model.",
    64,
    (
        Field("name_offset", 32, "first byte of the name, from the first name", unit="byte"),
        Field("name_length", 16, "bytes of the name", unit="byte"),
        Field("direction", 8, "0 input, 1 output"),
        Field("dtype", 8, "element type in memory: 0 int8, 1 uint8, 2 int16, 3 int32, 4 float32, 5 int64, 6 bool"),
        Field("host_dtype", 8, "element type of the source model, numbered like dtype"),
        Field("half_even", 8, "1: quantize with ties to even (ONNX); 0: away from zero (TFLite)"),
        Field("rank", 8, "dimensions", unit="dimension"),
        Field("reserved_rank", 8, "zero"),
        Field("address", 32, "first byte, in sram or dram", unit="address"),
        Field("n_bytes", 32, "bytes of the tensor", unit="byte"),
        Field("scale", 32, "float32 bits of the scale"),
        Field("zero_point", 32, "value that stands for zero", signed=True),
        *(Field(f"dim_{i}", 32, f"length of axis {i}; 0 from axis `rank` on") for i in range(MAX_RANK)),
    ),
)

STATE_HEADER = RecordSpec(
    "state_header",
    "Begins the state section; the entries follow, then the initial contents, one behind the other.",
    8,
    (
        Field("entry_count", 32, "states", unit="entry"),
        Field("images_bytes", 32, "bytes of all initial contents", unit="byte"),
    ),
)

STATE_ENTRY = RecordSpec(
    "state_entry",
    "Memory that keeps its contents from inference to inference; it has the initial contents before the first.",
    16,
    (
        Field("address", 32, "first byte, in sram or dram", unit="address"),
        Field("n_bytes", 32, "bytes of the state", unit="byte"),
        Field("image_offset", 32, "first byte of the initial contents, from the first of all", unit="byte"),
        Field("reserved", 32, "zero"),
    ),
)

ARM_HEADER = RecordSpec(
    "arm_header",
    "Begins the Arm call section; the calls follow, then the ranges of all calls, then the parameter records.",
    16,
    (
        Field("call_count", 32, "calls", unit="entry"),
        Field("range_count", 32, "ranges of all calls", unit="entry"),
        Field("parameters_bytes", 32, "bytes of all parameter records", unit="byte"),
        Field("reserved", 32, "zero"),
    ),
)

ARM_CALL = RecordSpec(
    "arm_call",
    "A call of a kernel: `kernel(parameters, sram base, program base)`. It starts when the call before it has ended "
    "and its conditions hold; when it has ended, the Arm counter is one more.",
    32,
    (
        Field("kernel", 16, "number of the kernel; 0: none, the call only waits"),
        Field("version", 16, "version of the kernel that the parameters are for"),
        Field("cycles", 32, "expected duration in cycles of the NPU's clock", unit="cycle"),
        Field("parameters", 32, "first byte of the parameter record, from the first record", unit="byte"),
        Field("parameters_bytes", 16, "length of the parameter record", unit="byte"),
        Field("range_count", 16, "ranges; those of the calls before come first", unit="entry"),
        *(
            field
            for i in range(CONDITIONS)
            for field in (
                Field(f"wait{i}_queue", 8, "condition: queue; 7: none"),
                Field(f"wait{i}_count", 16, "condition: instructions that the queue has retired, modulo 2^16"),
            )
        ),
        Field("reserved", 56, "zero"),
    ),
)

ARM_RANGE = RecordSpec(
    "arm_range",
    "Bytes of sram that a call may read or write; it touches no others.",
    16,
    (
        Field("address", 32, "first byte, in sram", unit="address"),
        Field("n_bytes", 32, "bytes", unit="byte"),
        Field("is_written", 8, "0: the call reads them, 1: it writes all of them"),
        Field("reserved", 56, "zero"),
    ),
)

CONTAINER_RECORDS = (
    CONTAINER_HEADER, SECTION_ENTRY, IO_HEADER, IO_ENTRY, STATE_HEADER, STATE_ENTRY, ARM_HEADER, ARM_CALL, ARM_RANGE,
)  # fmt: skip
"""Every record of a container but instructions and descriptors."""

DIRECTIONS = ("in", "out")
DTYPE_BYTES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "float32": 4, "int64": 8, "bool": 1}
DTYPES = tuple(DTYPE_BYTES)


@dataclass(frozen=True)
class IoEntry:
    """One input or output: dense elements in the source model's axis order at a 32-bit address of sram or dram.

    `dtype` is the element type in memory, `host_dtype` that of the source model. `scale` is read back rounded to
    float32, which is what the float boundary computes with; it is 0 where nothing is quantized. `half_even` is the
    rounding of Quantize at the boundary.
    """

    name: str
    direction: str
    dtype: str
    shape: tuple[int, ...]
    address: int
    scale: float
    zero_point: int
    host_dtype: str
    half_even: bool
    n_bytes: int


@dataclass(frozen=True)
class Container:
    """The contents of a `.npu` file; `metadata` is JSON-able, the other sections are raw bytes."""

    target_name: str
    fingerprint: str
    constants: bytes
    descriptors: bytes
    instructions: bytes
    io: tuple[IoEntry, ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    arm_calls: bytes = b""
    state: bytes = b""
    reference: bytes = b""
    signature: bytes = b""


def align(offset: int) -> int:
    """The next multiple of ALIGNMENT_BYTES."""
    return -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def descriptors_offset(constants_length: int) -> int:
    """Flash offset of the descriptors of a program with that many bytes of constants."""
    return align(CONSTANTS_OFFSET + constants_length)


def check_io(entry: IoEntry) -> None:
    """IsaError unless the entry is consistent; the same rule for writer and reader."""
    where = f"i/o entry {entry.name[:80]!r}"
    if not 1 <= len(entry.name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES or "\0" in entry.name:
        raise IsaError(f"{where}: allowed: a name of 1 to {MAX_NAME_BYTES} bytes without NUL")
    for key, value, allowed in (
        ("direction", entry.direction, DIRECTIONS),
        ("dtype", entry.dtype, DTYPES),
        ("host_dtype", entry.host_dtype, DTYPES),
    ):
        if value not in allowed:
            raise IsaError(f"{where}: {key} = {value!r}, allowed: {', '.join(allowed)}")
    if len(entry.shape) > MAX_RANK or min(entry.shape, default=1) < 1:
        raise IsaError(f"{where}: shape = {entry.shape}, allowed: at most {MAX_RANK} axes, each at least 1 long")
    n_bytes = math.prod(entry.shape) * DTYPE_BYTES[entry.dtype]
    if entry.n_bytes != n_bytes:
        raise IsaError(f"{where}: n_bytes = {entry.n_bytes}, allowed for this shape and type: {n_bytes}")
    memory, offset = entry.address >> 30, entry.address & ((1 << 30) - 1)
    if memory not in (Memory.SRAM, Memory.DRAM) or offset + n_bytes > 1 << 30:
        raise IsaError(f"{where}: address = {entry.address:#x} for {n_bytes} bytes, allowed: inside sram or dram")
    if not math.isfinite(entry.scale) or entry.scale < 0:
        raise IsaError(f"{where}: scale = {entry.scale}, allowed: finite and not negative")
