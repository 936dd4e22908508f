"""Random allocation problems for the property tests."""

from dataclasses import replace

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
def aliased_problems(draw: st.DrawFn, max_count: int) -> Problem:
    """Problems of mixed alignments in which the first buffers share an offset; none contradicts itself."""
    drawn = draw(buffers(max_count, alignments=(1, 2, 3, 4)))
    return Problem(drawn, aliases=(tuple(buffer.name for buffer in drawn[: draw(st.integers(0, 3))]),))


@st.composite
def tied_problems(draw: st.DrawFn, max_count: int = 7) -> Problem:
    """Problems with disjoint alias and contiguity groups and a fixed buffer; contradictory ones are among them."""
    drawn = draw(buffers(max_count, alignments=(1, 2, 4)))
    names = [buffer.name for buffer in drawn]
    cut = draw(st.integers(0, len(names)))
    if draw(st.booleans()):
        drawn = (*drawn[:-1], replace(drawn[-1], fixed_offset=4 * draw(st.integers(0, 2))))
    return Problem(drawn, None, aliases=(tuple(names[:cut][:2]),), contiguous=(tuple(names[cut:][:3]),))
