"""The checker finds each kind of violation and names the buffers."""

import pytest

from npuc.allocation import Buffer, InvalidPlacement, Placement, Problem, validate_placement

A = Buffer("a", 0, 4, 16, 8)
B = Buffer("b", 2, 6, 16)
PAIR = Problem((A, B), capacity_bytes=40)


@pytest.mark.parametrize(
    ("problem", "placement", "message"),
    [
        (PAIR, Placement({"a": 0}, 32, 32), "b has no offset"),
        (PAIR, Placement({"a": 0, "b": 16, "c": 0}, 32, 32), "c is placed but is not a buffer"),
        (
            PAIR,
            Placement({"a": 0, "b": 15}, 32, 32),
            r"a \[0, 16\) live \[0, 4\) and b \[15, 31\) live .* overlap",
        ),
        (PAIR, Placement({"a": 4, "b": 20}, 36, 32), "a at 4 is not aligned to 8"),
        (PAIR, Placement({"a": 0, "b": 17}, 32, 32), r"b at \[17, 33\) leaves the arena \[0, 32\)"),
        (PAIR, Placement({"a": 0, "b": 16}, 32, 33), "peak 32 is below its bound 33"),
        (PAIR, Placement({"a": 0, "b": 16}, 48, 32), "peak 48 exceeds the capacity 40"),
        (
            Problem((A, B), aliases=(("a", "b"),)),
            Placement({"a": 0, "b": 16}, 32, 16),
            "a at 0 and b at 16",
        ),
        (Problem((A, B), contiguous=(("a", "b"),)), Placement({"a": 16, "b": 0}, 32, 32), "b at 0 does not follow a"),
        (Problem((Buffer("f", 0, 1, 8, fixed_offset=8),)), Placement({"f": 0}, 16, 16), "f is at 0, fixed at 8"),
    ],
)
def test_violation_is_found(problem: Problem, placement: Placement, message: str) -> None:
    with pytest.raises(InvalidPlacement, match=message):
        validate_placement(problem, placement)


def test_aliases_may_overlap_through_a_chain() -> None:
    parts = (A, B, Buffer("c", 0, 9, 4))
    problem = Problem(parts, aliases=(("a", "b"), ("b", "c")))
    validate_placement(problem, Placement({"a": 0, "b": 0, "c": 0}, 16, 16))
