"""Malformed problems are refused in one line that names the culprit."""

import pytest

from npuc.allocation import Buffer, InvalidProblem, Problem, allocate

A = Buffer("a", 0, 4, 16)
B = Buffer("b", 2, 6, 16)
C = Buffer("c", 2, 6, 16)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lower": 3, "upper": 3}, r"buffer x: live range \[3, 3\) is empty"),
        ({"size_bytes": 0}, "buffer x: size is 0 bytes, allowed 1 to"),
        ({"alignment_bytes": 0}, "buffer x: alignment is 0 bytes"),
        ({"fixed_offset": -4}, "buffer x: fixed offset is -4, allowed 0 to"),
        ({"fixed_offset": 8, "alignment_bytes": 16}, "fixed offset 8 is not a multiple of the alignment 16"),
    ],
)
def test_bad_buffer_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        Buffer(**{"name": "x", "lower": 0, "upper": 1, "size_bytes": 1, **fields})  # type: ignore[arg-type]


def test_repeated_name_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="buffer name a is used 2 times"):
        Problem((A, A))


def test_negative_capacity_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="capacity is -1 bytes"):
        Problem((A,), capacity_bytes=-1)


def test_unknown_and_repeated_group_members_are_refused() -> None:
    with pytest.raises(InvalidProblem, match=r"alias group \(a, q\): q is not a buffer"):
        Problem((A,), aliases=(("a", "q"),))
    with pytest.raises(InvalidProblem, match=r"contiguous group \(a, a\): a appears twice"):
        Problem((A,), contiguous=(("a", "a"),))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem((A, B), aliases=(("a", "b"),), contiguous=(("a", "b"),)), "groups contradict each other"),
        (Problem((A, B, C), contiguous=(("a", "b"), ("a", "c"))), "b and c: groups make live buffers overlap"),
        (
            Problem((Buffer("x", 0, 1, 10, 16), Buffer("y", 0, 1, 16, 16)), contiguous=(("x", "y"),)),
            "x and y: no address aligns both",
        ),
        (
            Problem((Buffer("x", 0, 1, 8), Buffer("y", 0, 1, 8, fixed_offset=0)), contiguous=(("x", "y"),)),
            "y: fixed offset puts its contiguous group below address 0",
        ),
        (
            Problem((Buffer("x", 0, 2, 8, fixed_offset=0), Buffer("y", 1, 3, 8, fixed_offset=4))),
            "x and y: fixed offsets make live buffers overlap",
        ),
        (
            Problem(
                (Buffer("x", 0, 2, 8, fixed_offset=0), Buffer("y", 3, 4, 8, fixed_offset=8)), aliases=(("x", "y"),)
            ),
            "x and y: fixed offsets contradict their group",
        ),
        (
            Problem((Buffer("x", 0, 2, 8, fixed_offset=4), Buffer("y", 0, 2, 8, 8)), contiguous=(("x", "y"),)),
            "x: fixed offsets misalign another buffer of its group",
        ),
    ],
)
def test_contradictory_constraints_are_refused(problem: Problem, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        allocate(problem)


def test_contiguous_buffers_may_need_an_offset_base() -> None:
    problem = Problem((Buffer("head", 0, 1, 3), Buffer("tail", 0, 1, 8, 4)), contiguous=(("head", "tail"),))
    placement = allocate(problem)
    assert (placement.offsets, placement.peak_bytes) == ({"head": 1, "tail": 4}, 12)
