"""The Arm call section: what is encoded is decoded, and nothing malformed is accepted."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.arm_calls import ArmCall, ArmRange, decode_arm_calls, encode_arm_calls
from isa.container_format import ARM_CALL, ARM_HEADER
from isa.errors import IsaError
from isa.instructions import Queue

SRAM = 1 << 30

conditions = st.lists(
    st.tuples(st.sampled_from([Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC]), st.integers(0, 65535)), max_size=3
).map(tuple)
ranges = st.lists(
    st.builds(ArmRange, st.integers(0, 1 << 20).map(lambda x: SRAM + x), st.integers(1, 1 << 20), st.booleans()),
    max_size=4,
).map(tuple)
calls = st.builds(
    ArmCall, st.integers(1, 65535), st.integers(0, 65535), st.integers(0, 2**32 - 1), st.binary(max_size=200),
    conditions, ranges,
)  # fmt: skip


@given(st.lists(calls, max_size=5))
def test_calls_round_trip(items: list[ArmCall]) -> None:
    assert decode_arm_calls(encode_arm_calls(items)) == tuple(items)


@given(st.lists(calls, min_size=1, max_size=3), st.data())
def test_changed_bytes_decode_or_are_refused(items: list[ArmCall], data: st.DataObject) -> None:
    section = bytearray(encode_arm_calls(items))
    place = data.draw(st.integers(0, len(section) - 1))
    section[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(section)))
    for changed in (bytes(section), bytes(section[:cut])):
        with contextlib.suppress(IsaError):
            decode_arm_calls(changed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (ArmCall(1, 1, 0, b"", ((Queue.ARM, 1),), ()), "waits for arm"),
        (ArmCall(1, 1, 0, b"", ((Queue.MAC, 1),) * 4, ()), "4 conditions"),
        (ArmCall(0, 0, 0, b"abcd", (), ()), "no kernel"),
        (ArmCall(1, 1, 0, b"", (), (ArmRange(0, 4, False),)), "inside sram"),
        (ArmCall(1, 1, 0, b"", (), (ArmRange(SRAM, 0, False),)), "inside sram"),
        (ArmCall(1 << 16, 1, 0, b"", (), ()), "kernel = 65536"),
    ],
)
def test_a_call_that_cannot_be_is_refused(call: ArmCall, message: str) -> None:
    with pytest.raises(IsaError, match=message):
        encode_arm_calls([call])


def test_ranges_and_parameters_outside_the_section_are_refused() -> None:
    section = bytearray(encode_arm_calls([ArmCall(1, 1, 0, b"abcd", (), ())]))
    section[ARM_HEADER.length_bytes + 8] = 8  # parameters begin behind the last record
    with pytest.raises(IsaError, match="parameters end"):
        decode_arm_calls(bytes(section))
    with pytest.raises(IsaError, match="arm section"):
        decode_arm_calls(bytes(section) + b"\0")
    assert ARM_CALL.length_bytes == 32
