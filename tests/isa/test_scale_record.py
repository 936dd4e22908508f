"""The records of the output stage's constants: every form keeps its values, and the shortest one that can is taken."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.descriptors import SCALES
from isa.record import encode_record
from isa.scale_record import Scales, pack, record_bytes, shortest_form, unpack

BIAS_BITS = (32, 12, 20, 28)
LENGTHS = (10, 6, 7, 8)
FORMS = pytest.mark.parametrize("form", range(4))


def scales(*rows: tuple[int, int, int]) -> Scales:
    return Scales(*np.array(rows, np.int64).T)


@st.composite
def constants(draw: st.DrawFn, form: int) -> list[tuple[int, int, int]]:
    high = 1 << (BIAS_BITS[form] - 1)
    bias = st.one_of(st.sampled_from([-high, high - 1, 0, -1]), st.integers(-high, high - 1))
    multiplier = st.integers(-(1 << 31) if form == 0 else 1 << 30, (1 << 31) - 1)
    shift = st.integers(0, 255 if form == 0 else 63)
    return draw(st.lists(st.tuples(bias, multiplier, shift), min_size=1, max_size=20))


@FORMS
@given(data=st.data())
def test_a_form_keeps_its_constants_and_is_what_the_manual_says(form: int, data: st.DataObject) -> None:
    rows = data.draw(constants(form))
    stored = pack(scales(*rows), form)
    manual = [encode_record(SCALES[form], dict(zip(Scales._fields, row, strict=True))) for row in rows]
    assert stored == b"".join(manual)
    records = np.frombuffer(stored, np.uint8).reshape(len(rows), LENGTHS[form])
    assert [tuple(row) for row in np.array(unpack(records, form)).T.tolist()] == rows


@FORMS
def test_the_length_of_a_record(form: int) -> None:
    assert record_bytes(form) == SCALES[form].length_bytes == LENGTHS[form]
    assert record_bytes(np.array([form, 0])).tolist() == [LENGTHS[form], 10]


ONE = 1 << 30


@pytest.mark.parametrize(
    ("rows", "form"),
    [
        ([(2047, ONE, 40), (-2048, ONE, 40)], 1),
        ([(2048, ONE, 40), (0, ONE, 40)], 2),
        ([(-2049, 2 * ONE - 1, 63)], 2),
        ([((1 << 19) - 1, ONE, 2)], 2),
        ([(1 << 19, ONE, 2)], 3),
        ([(-(1 << 27), ONE, 2)], 3),
        ([(1 << 27, ONE, 2)], 0),
        ([(0, ONE, 40), (0, ONE - 1, 40)], 0),
        ([(0, 0, 40)], 0),
        ([(0, -ONE, 40)], 0),
        ([(0, ONE, 64)], 0),
    ],
)
def test_the_shortest_form_that_holds_every_channel_is_taken(rows: list[tuple[int, int, int]], form: int) -> None:
    assert shortest_form(scales(*rows)) == form


def test_constants_that_a_form_cannot_hold_are_errors() -> None:
    with pytest.raises(ValueError, match="records of 7 bytes do not hold the constants"):
        pack(scales((1 << 19, ONE, 2)), 2)
    with pytest.raises(ValueError, match="exceed"):
        shortest_form(scales((1 << 31, ONE, 2)))
