"""Schedule quality beside Vela: arithmetic of the criteria, records that are kept, and the page written from them."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.anchors import store as store_module
from benchmarks.anchors.cell import CRASHED, DONE, FULL_BYTES, LATENCY, MEMORY, Cell, Record, anchors
from benchmarks.anchors.criteria import budgets, criteria, infeasible, latency, memory, monotone, policies
from benchmarks.anchors.golden import Golden, compare, read_golden
from benchmarks.anchors.store import RESULTS, Store
from benchmarks.anchors.table import page
from benchmarks.anchors.worker import measure as measure_cell
from tests.shared_data import require_shared

pytestmark = pytest.mark.shared


def done(cycles: float, peak_bytes: int = 64) -> Record:
    """A record with the figures that the criteria read."""
    return {
        "status": DONE, "cycles": int(cycles), "sram_peak_bytes": peak_bytes, "differ": 0, "samples": 5,
        "check": "bit-exact", "weights_bytes": 1, "offchip_data_bytes": 1, "stream_bytes": 1,
    }  # fmt: skip


def test_the_page_is_written_from_the_records() -> None:
    require_shared()
    found = Store()
    assert RESULTS.with_suffix(".md").read_text(encoding="utf-8") == page(found.look, found.commit)


def test_nothing_is_met_that_is_not_measured(tmp_path: Path) -> None:
    require_shared()
    empty = Store(tmp_path / "anchors.json")
    assert [criterion.name for criterion in criteria() if criterion.judge(empty.look).ok] == []
    assert "not measured" in page(empty.look, empty.commit)


def test_latency_is_a_geometric_mean_and_asks_for_every_network() -> None:
    require_shared()

    def twice_the_bound(cell: Cell) -> Record:
        return done(2 * anchors()[cell.network].bound(cell.target))

    def without_vww(cell: Cell) -> Record:
        return {"status": 1, "error": "no"} if cell.network == "mlperf_vww" else twice_the_bound(cell)

    met = latency("u55-like", 2.0, twice_the_bound)
    assert met.ok
    assert len(met.figures["ratios"]) == 22
    assert not latency("u55-like", 1.99, twice_the_bound).ok
    failed = latency("edge-256-mram", 2.0, without_vww)
    assert not failed.ok
    assert failed.figures["no_program"] == ["mlperf_vww"]


def test_one_network_of_main_may_need_more_memory_than_vela() -> None:
    require_shared()

    def smaller(cell: Cell, but: tuple[str, ...] = ()) -> Record:
        return done(1, int(anchors()[cell.network].vela_small_sram_bytes * (1.5 if cell.network in but else 0.8)))

    assert memory(smaller).ok
    assert memory(lambda cell: smaller(cell, ("micro_speech",))).ok
    assert not memory(lambda cell: smaller(cell, ("micro_speech", "mlperf_kws"))).ok


def test_policies_are_compared_where_both_have_a_program() -> None:
    require_shared()

    def measured(cell: Cell) -> Record:
        if cell.policy == "greedy" and cell.network == "mlperf_kws":
            return {"status": 1, "error": "needs 9 bytes of sram"}
        return done({"search": 1000, "greedy": 1250, "layerwise": 1600}[cell.policy])

    verdict = policies(("main",), True, measured)
    assert verdict.ok
    assert verdict.figures["greedy_has_no_program"] == ["mlperf_kws"]
    assert not policies(("main",), True, lambda cell: measured(cell) if cell.policy != "layerwise" else done(1599)).ok


@pytest.mark.parametrize("smallest", [768, 2320, 1_048_576])
def test_budgets_rise_to_2_mib(smallest: int) -> None:
    found = budgets(smallest)
    assert len(found) == 8
    assert (found[0], found[-1]) == (smallest, FULL_BYTES)
    assert found == sorted(set(found))
    assert all(budget % 16 == 0 for budget in found[1:])


def test_a_slower_program_with_more_memory_is_found() -> None:
    require_shared()
    rungs = budgets(1024)

    def falling(cell: Cell) -> Record:
        return done(1e6, 1024) if cell.optimize == MEMORY else done(1e6 - cell.sram_bytes / 4)

    def with_a_rise(cell: Cell) -> Record:
        is_rise = cell.network == "dtln" and cell.sram_bytes == rungs[4]
        return done(2e6) if is_rise and cell.optimize == LATENCY else falling(cell)

    assert monotone(falling).ok
    assert list(monotone(with_a_rise).figures["not_monotone"]) == ["dtln"]


def test_a_budget_that_is_refused_without_its_reason_is_not_explained() -> None:
    require_shared()

    def refused(cell: Cell, error: str) -> Record:
        return done(1, 64) if cell.optimize == MEMORY else {"status": 1, "error": error, "left": False}

    reason = "error: needs 64 bytes of sram, available 32, excess 32; live at the peak: x 64\n  hint: compile with 64"
    assert infeasible(lambda cell: refused(cell, reason)).ok
    assert not infeasible(lambda cell: refused(cell, "error: does not fit")).ok


def test_records_are_kept_for_the_sources_that_gave_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{"status": CRASHED, "error": "bug"}, done(7), done(8), done(9)])
    sources = ["a"]
    monkeypatch.setattr(store_module, "source_digest", lambda: sources[0])
    monkeypatch.setattr(Store, "_ask", lambda self, cell: next(answers))
    path, cell = tmp_path / "anchors.json", Cell("mlperf_ad", "edge-256", 1024)

    def measured() -> object:
        return Store(path).measure(cell).get("cycles")

    assert [measured() for _ in range(3)] == [None, 7, 7], "a crash is tried again, a figure is kept"
    sources[0] = "b"
    assert Store(path).look(cell)["cycles"] == 7, "what other sources gave can be looked at"
    assert [measured(), measured()] == [8, 8]


def test_outputs_that_differ_are_counted(tmp_path: Path) -> None:
    integers, floats = np.array([[1, 2], [3, 4]], np.int8), np.array([1.0, 2.0], np.float32)
    path = tmp_path / "outputs.npz"

    def count(*arrays: npt.NDArray[np.generic], allowed: float = 0.0) -> int:
        np.savez(path, *arrays)
        return compare(Golden([], [integers, floats], allowed), path)

    near = floats * np.float32(1 + 5e-7)
    assert count(integers, floats) == 0
    assert count(integers + np.int8(1), floats) == 4
    assert count(integers.astype(np.int16), floats) == 4
    assert count(integers, near) == 2
    assert count(integers, near, allowed=1e-6) == 0
    assert count(integers) == 6


def test_a_cell_is_compiled_run_and_compared(tmp_path: Path) -> None:
    require_shared()
    record = measure_cell(Cell("micro_speech", "u55-like", FULL_BYTES), tmp_path)
    assert (record["status"], record["samples"], record["differ"], record["check"]) == (DONE, 5, 0, "bit-exact")
    assert record["cycles"] >= anchors()["micro_speech"].bound("u55-like")
    refused = measure_cell(Cell("micro_speech", "u55-like", 1024), tmp_path)
    assert (refused["status"], refused["left"]) == (1, False)
    assert "bytes of sram" in refused["error"]


def test_goldens_are_those_of_tensorflow_lite_micro(tmp_path: Path) -> None:
    require_shared()
    golden = read_golden("person_detect", tmp_path, 2)
    assert np.load(golden.inputs[0]).shape[0] == 2
    assert [array.shape for array in golden.outputs] == [(2, 2)]
