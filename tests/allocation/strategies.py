"""Random allocation problems for the property tests."""

from hypothesis import strategies as st

from npuc.allocation import Buffer, Problem


@st.composite
def buffers(draw: st.DrawFn, max_count: int, alignments: tuple[int, ...] = (1,)) -> tuple[Buffer, ...]:
    count = draw(st.integers(1, max_count))
    return tuple(_buffer(draw, f"t{i}", alignments) for i in range(count))


def _buffer(draw: st.DrawFn, name: str, alignments: tuple[int, ...]) -> Buffer:
    lower = draw(st.integers(0, 6))
    upper = lower + draw(st.integers(1, 4))
    return Buffer(name, lower, upper, draw(st.integers(1, 5)), draw(st.sampled_from(alignments)))


@st.composite
def tied_problems(draw: st.DrawFn) -> Problem:
    """Problems with disjoint alias and contiguity groups; contradictory ones are among them."""
    drawn = draw(buffers(7, alignments=(1, 2, 4)))
    names = [buffer.name for buffer in drawn]
    cut = draw(st.integers(0, len(names)))
    return Problem(drawn, None, aliases=(tuple(names[:cut][:2]),), contiguous=(tuple(names[cut:][:3]),))
