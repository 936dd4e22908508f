"""`npuc pareto` and `npuc compile --cycles`: the rows are programs that can be compiled again."""

import json
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import DIGITS, Npuc

Golden = Callable[[str, str], None]

MODEL = (DIGITS / "model.onnx", "-t", "u55-like", "--data", f"{DIGITS / 'digits.npz'}:calib@:16")


def test_table(npuc: Npuc, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    front = [(12160, 1200336), (38800, 158267), (1048576, 51244)]
    monkeypatch.setattr("npuc.compiler.sram_cycles_front", lambda *_: front)
    result = npuc("pareto", *MODEL)
    assert result.status == 0, result.err
    golden("pareto/table.txt", result.out)


def test_every_row_is_what_compile_finds_within_its_sram(npuc: Npuc) -> None:
    found = json.loads(npuc("pareto", *MODEL, "--json").out)
    assert found["schema"] == "npuc.pareto/1"
    points = found["points"]
    assert points == sorted(points, key=lambda point: (point["sram_bytes"], -point["cycles"]))
    for point in (points[0], points[len(points) // 2], points[-1]):
        for option in (("--sram", point["sram_bytes"]), ("--cycles", point["cycles"])):
            report = json.loads(npuc("compile", *MODEL, "--no-lock", "--json", *map(str, option)).out)
            assert report["cycles"]["predicted"] == point["cycles"]
            assert report["sram"]["peak_bytes"] <= point["sram_bytes"]


def test_too_few_cycles_name_the_fastest_program(npuc: Npuc) -> None:
    fastest = json.loads(npuc("pareto", *MODEL, "--json").out)["points"][-1]
    result = npuc("compile", *MODEL, "--no-lock", "--cycles", "1")
    assert result.status == 1
    reason = f"the fastest takes {fastest['cycles']} with {fastest['sram_bytes']} bytes of sram"
    assert f"no schedule of at most 1 cycles was found, {reason}" in result.err


def test_plot_needs_matplotlib(npuc: Npuc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = npuc("pareto", *MODEL, "--plot", "front.png")
    assert result.status == 2
    assert "hint: install npuc with the extra: report" in result.err
