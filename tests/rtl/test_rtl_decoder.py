"""The weight decoder: random shapes with coded weights, byte for byte against the simulator, and when they begin."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from isa.code_table import STATES, TABLE_UNIT_BYTES, code_table_offset, parse_table
from npuc.lower.weight_code import encode_pieces
from tests.rtl.bench import Bytes, Job, run
from tests.rtl.shapes import (
    LANES,
    SCALES,
    SCALES_BYTES,
    WEIGHTS,
    Case,
    draw,
    expected_sram,
    job_of,
    memory,
    program_of,
)
from tests.rtl.walk import LEAD, Order, words
from tests.simulator.assemble import sram

WEIGHT_BUFFER_BYTES = 8192
SHAPES = 20
STREAM_TURNS = 3
"""The first words of a stream, each of which may have to let the fetcher go first."""

Random = np.random.Generator


def n_weights(case: Case, channels: int) -> int:
    return case.layer["kernel_h"] * case.layer["kernel_w"] * case.values["k_channels"] * channels


def code_table_place(case: Case) -> int:
    """Byte of sram."""
    form = case.layer["scale_form"]
    return SCALES + SCALES_BYTES * form + code_table_offset(case.layer["ofm_channels"], form)


def coded(rng: Random, case: Case) -> tuple[Case, Bytes] | None:
    """The case with coded weights in sram; None where those of one group do not fit, or coding does not help."""
    if n_weights(case, LANES) > WEIGHT_BUFFER_BYTES:
        return None
    spread = rng.choice([2.0, 8.0, 40.0])
    weights = np.clip(np.rint(rng.normal(0, spread, n_weights(case, case.values["channels"]))), -128, 127)
    data = weights.astype(np.int8).tobytes()
    stored = encode_pieces(data, [(0, len(data))])
    piece = stored.pieces[0]
    if not piece.coded_words:
        return None
    before = memory(rng)
    place = code_table_place(case)
    for offset, part in ((WEIGHTS, piece.data), (place, stored.table)):
        before[offset : offset + len(part)] = np.frombuffer(part, np.uint8)
    values = {**case.values, "weights": sram(WEIGHTS), "coded_words": piece.coded_words}
    layer = {**case.layer, "code_table": len(stored.table) // TABLE_UNIT_BYTES}
    return Case(case.mnemonic, values, layer), before


def draws(kind: str, change: Callable[[Case], Case] = lambda case: case) -> list[tuple[Case, Job]]:
    rng = np.random.default_rng(0)
    found: list[tuple[Case, Job]] = []
    while len(found) < SHAPES:
        case = draw(rng, kind, aligned=True)
        stored = case and coded(rng, change(case))
        if stored:
            found.append((stored[0], job_of(program_of([stored[0]]), stored[1])))
    return found


@pytest.mark.parametrize("kind", ["conv", "stem", "depthwise"])
def test_coded_weights_give_the_bytes_of_the_simulator(kind: str) -> None:
    jobs = [job for _, job in draws(kind)]
    for job, result in zip(jobs, run(jobs), strict=True):
        np.testing.assert_array_equal(result.sram, expected_sram(job.program, job.sram))


def in_one_part(case: Case) -> Case:
    """Its first output channels, all positions in one block."""
    values = {**case.values, "channels": min(LANES, case.values["channels"])}
    blocks = {"block_h": values["height"], "block_w": values["width"], "block_c": 1}
    return replace(case, values=values, layer={**case.layer, **blocks})


def first_part(case: Case, job: Job) -> int:
    """Cycles from the start until the weights of the only part are there (docs/rtl.md, the start of coded weights)."""
    place = code_table_place(case)
    table_bytes = TABLE_UNIT_BYTES * case.layer["code_table"]
    tokens = len(parse_table(job.sram[place : place + table_bytes].tobytes()))
    weights = n_weights(case, case.values["channels"])
    inputs = Order(case).parts[0].needs - words(case.values["weights"], weights)
    return LEAD + words(place, table_bytes) + max(inputs + 3, tokens + STATES // 8) + -(-weights // 8)


def test_the_first_part_of_coded_weights_begins_behind_table_tokens_states_and_its_weights() -> None:
    found = draws("stem", in_one_part)
    n_bound_by_decoder = 0
    for (case, job), result in zip(found, run([job for _, job in found]), strict=True):
        start, issue_end, _ = result.times[len(job.program.code) - 2]
        expected = first_part(case, job)
        assert issue_end - start >= expected, case
        if LEAD + result.words_read < expected:
            n_bound_by_decoder += 1
            assert issue_end - start <= expected + STREAM_TURNS, case
    assert n_bound_by_decoder >= SHAPES // 4
