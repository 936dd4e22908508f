"""The weight decoder: random shapes with coded weights, byte for byte against the simulator."""

import numpy as np
import pytest

from isa.code_table import TABLE_UNIT_BYTES, code_table_offset
from npuc.lower.weight_code import encode_pieces
from tests.rtl.bench import Bytes, Job, run
from tests.rtl.shapes import SCALES, WEIGHTS, Case, draw, expected_sram, job_of, memory, program_of
from tests.simulator.assemble import sram

WEIGHT_BUFFER_BYTES = 8192
SHAPES = 20

Random = np.random.Generator


def n_weights(case: Case, channels: int) -> int:
    return case.layer["kernel_h"] * case.layer["kernel_w"] * case.values["k_channels"] * channels


def coded(rng: Random, case: Case) -> tuple[Case, Bytes] | None:
    """The case with coded weights in sram; None where the weights of a block do not fit, or coding does not help."""
    if n_weights(case, min(8 * case.layer["block_c"], case.values["channels"])) > WEIGHT_BUFFER_BYTES:
        return None
    spread = rng.choice([2.0, 8.0, 40.0])
    weights = np.clip(np.rint(rng.normal(0, spread, n_weights(case, case.values["channels"]))), -128, 127)
    data = weights.astype(np.int8).tobytes()
    stored = encode_pieces(data, [(0, len(data))])
    piece = stored.pieces[0]
    if not piece.coded_words:
        return None
    before = memory(rng)
    place = SCALES + code_table_offset(case.layer["ofm_channels"])
    for offset, part in ((WEIGHTS, piece.data), (place, stored.table)):
        before[offset : offset + len(part)] = np.frombuffer(part, np.uint8)
    values = {**case.values, "weights": sram(WEIGHTS), "coded_words": piece.coded_words}
    layer = {**case.layer, "code_table": len(stored.table) // TABLE_UNIT_BYTES}
    return Case(case.mnemonic, values, layer), before


def jobs_of(kind: str) -> list[Job]:
    rng = np.random.default_rng(0)
    jobs: list[Job] = []
    while len(jobs) < SHAPES:
        case = draw(rng, kind, aligned=True)
        found = case and coded(rng, case)
        if found:
            jobs.append(job_of(program_of([found[0]]), found[1]))
    return jobs


@pytest.mark.parametrize("kind", ["conv", "stem", "depthwise"])
def test_coded_weights_give_the_bytes_of_the_simulator(kind: str) -> None:
    jobs = jobs_of(kind)
    for job, result in zip(jobs, run(jobs), strict=True):
        np.testing.assert_array_equal(result.sram, expected_sram(job.program, job.sram))
