"""The state section: memory that keeps its contents from inference to inference, and what it holds before the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isa.container_format import STATE_ENTRY, STATE_HEADER
from isa.descriptors import Memory
from isa.errors import IsaError
from isa.record import decode_record, encode_record

MAX_STATES = 4096


@dataclass(frozen=True)
class StateEntry:
    """Bytes at an address of sram or dram; `initial` is their contents before the first inference."""

    address: int
    initial: bytes


def encode_states(states: Sequence[StateEntry]) -> bytes:
    """The section: header, entries, then the initial contents one behind the other; nothing for no states."""
    if not states:
        return b""
    records, images = b"", b""
    for state in states:
        values = {"address": state.address, "n_bytes": len(state.initial), "image_offset": len(images)}
        records += encode_record(STATE_ENTRY, values)
        images += state.initial
    return encode_record(STATE_HEADER, {"entry_count": len(states), "images_bytes": len(images)}) + records + images


def decode_states(section: bytes) -> tuple[StateEntry, ...]:
    """The entries of a section; IsaError when it is malformed."""
    if not section:
        return ()
    header = decode_record(STATE_HEADER, _cut(section, 0, STATE_HEADER.length_bytes))
    count, first = header["entry_count"], STATE_HEADER.length_bytes
    images = first + count * STATE_ENTRY.length_bytes
    if not 0 < count <= MAX_STATES or images + header["images_bytes"] != len(section):
        raise IsaError(f"state section of {len(section)} bytes has {count} entries, allowed: 1 to {MAX_STATES}")
    return tuple(_entry(section, first + i * STATE_ENTRY.length_bytes, images) for i in range(count))


def _entry(section: bytes, place: int, images: int) -> StateEntry:
    values = decode_record(STATE_ENTRY, _cut(section, place, STATE_ENTRY.length_bytes))
    memory, offset = values["address"] >> 30, values["address"] & ((1 << 30) - 1)
    if memory not in (Memory.SRAM, Memory.DRAM) or offset + values["n_bytes"] > 1 << 30:
        raise IsaError(f"state at {values['address']:#010x} of {values['n_bytes']} bytes, allowed: inside sram or dram")
    return StateEntry(values["address"], _cut(section, images + values["image_offset"], values["n_bytes"]))


def _cut(section: bytes, start: int, length: int) -> bytes:
    if start + length > len(section):
        raise IsaError(f"state section of {len(section)} bytes ends before byte {start + length}")
    return section[start : start + length]
