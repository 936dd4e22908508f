"""The state section survives being written and read; anything else is one IsaError."""

from contextlib import suppress

import pytest

from isa.descriptors import Memory, address
from isa.errors import IsaError
from isa.state import StateEntry, decode_states, encode_states

STATES = (
    StateEntry(address(Memory.SRAM, 64), b"\x80" * 12),
    StateEntry(address(Memory.DRAM, 0), bytes(range(5))),
    StateEntry(address(Memory.SRAM, 128), b""),
)


def test_reading_gives_the_same_states() -> None:
    assert decode_states(encode_states(STATES)) == STATES
    assert decode_states(encode_states(())) == ()
    assert encode_states(()) == b""


@pytest.mark.parametrize("length", [1, 7, 8, 23, 40, 60])
def test_truncated_sections_are_refused(length: int) -> None:
    section = encode_states(STATES)
    with pytest.raises(IsaError):
        decode_states(section[:length])


def test_states_outside_writable_memory_are_refused() -> None:
    with pytest.raises(IsaError, match="inside sram or dram"):
        decode_states(encode_states([StateEntry(address(Memory.FLASH, 0), b"x")]))


def test_damaged_sections_never_crash() -> None:
    section = encode_states(STATES)
    for place in range(len(section)):
        for value in (0x00, 0x7F, 0xFF):
            damaged = section[:place] + bytes([value]) + section[place + 1 :]
            with suppress(IsaError):
                decode_states(damaged)
