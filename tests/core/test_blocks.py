"""Block shapes: none of the candidates beats the two that are chosen, each by its own measure."""

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isa.target_file import load_target
from isa.timing import block_fits, work_of
from npuc.errors import NpucError
from npuc.graph.graph import Graph
from npuc.legalize import legalize
from npuc.partition import partition
from npuc.schedule.blocks import MEASURES, Request, busy_cycles, candidates, choose_blocks, request_columns
from npuc.schedule.tiles import tile_request
from tests.core.random_networks import networks


@settings(max_examples=40)
@given(graph=networks(), target=st.sampled_from(["edge-256", "u55-like", "u55-like-mram"]), streamed=st.booleans())
def test_no_block_beats_the_chosen_ones(graph: Graph, target: str, streamed: bool) -> None:
    machine = load_target(target)
    try:
        kernels = partition(legalize(graph, machine), machine).kernels
    except NpucError:
        assume(False)
        raise
    requests = [
        tile_request(kernel, range(kernel.space[1]), kernel.space[3], streamed=streamed)
        for kernel in kernels
        if kernel.is_mac and len(kernel.groups) <= 1
    ]
    for request, choice in zip(requests, choose_blocks(requests, machine), strict=True):
        chosen = (choice.block, choice.crowded)
        blocks = [*chosen, *candidates(request.kernel, request.task, machine)]
        shapes = [Request(request.kernel, replace(request.task, block=block), streamed) for block in blocks]
        columns = request_columns(shapes)
        fits = block_fits(columns, machine)
        assert fits[:2].all()
        work = work_of({name: column[fits] for name, column in columns.items()}, machine)
        for place, measure in enumerate(MEASURES):
            cycles = measure(work, machine)
            assert cycles[place] == cycles.min()
        assert choice.cycles == busy_cycles(work, machine)[0]
        words = (work.read_words + work.write_words)[:2]
        assert choice.amounts.port_words == words[0]
        assert choice.least.port_words == words.min()
        assert choice.least.flash_bytes == work.flash_bytes[:2].min()
