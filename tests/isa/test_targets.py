"""The shipped targets are DESIGN's table; a wrong file is refused by key, value and what is allowed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from isa.errors import IsaError
from isa.target import Rate
from isa.target_file import FOLDER, load_target, target_from_dict, target_names, target_to_dict

NAMES = ("edge-128", "edge-256", "edge-256-mram", "edge-64", "soc-1k", "u55-like", "u55-like-mram")
EDGE = (FOLDER / "edge-256.toml").read_text()


def test_seven_targets_are_shipped() -> None:
    assert target_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_target_survives_json(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert target_from_dict(name, json.loads(json.dumps(target_to_dict(target)))) == target


@pytest.mark.parametrize("name", ["edge-256", "u55-like"])
def test_mram_twins_differ_in_flash_bandwidth_only(name: str) -> None:
    target, twin = load_target(name), load_target(f"{name}-mram")
    assert twin.board == replace(target.board, flash_bytes_per_cycle=4)
    assert (twin.costs, twin.fingerprint) == (target.costs, target.fingerprint)


@pytest.mark.parametrize(
    ("name", "macs"),
    [("edge-256", 256), ("u55-like", 256), ("edge-128", 128), ("edge-64", 64), ("soc-1k", 1024)],
)
def test_every_step_uses_all_multipliers(name: str, macs: int) -> None:
    target = load_target(name)
    costs = target.costs
    for channels, taps in costs.mac_step_taps:
        products = channels * taps * costs.mac_step_cout * costs.mac_step_pixels_h * costs.mac_step_pixels_w
        assert products == macs * costs.mac_step_cycles
    assert costs.mac_step_cout == target.architecture.cout_lanes
    assert max(channels for channels, _ in costs.mac_step_taps) == target.architecture.cin_lanes


def test_fractional_rates_are_exact() -> None:
    costs = load_target("u55-like").costs
    assert (costs.vector_add, costs.vector_mul, costs.vector_softmax) == (Rate(4, 3), Rate(8, 3), Rate(1, 2))


def test_fingerprint_follows_architecture_and_limits_only() -> None:
    tables = target_to_dict(load_target("edge-256"))
    original = target_from_dict("x", tables).fingerprint
    assert original == load_target("edge-256").fingerprint == "1384d4bbf2f9e6e7"
    tables["board"]["sram_bytes"] = 1 << 20
    assert target_from_dict("y", tables).fingerprint == original
    tables["limits"]["concat_inputs"] = 64
    assert target_from_dict("y", tables).fingerprint != original


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_may_extend_a_shipped_target(tmp_path: Path) -> None:
    target = load_target(write(tmp_path, 'extends = "edge-256"\n[board]\nsram_bytes = 65536\n'))
    assert target.name == "mine"
    assert target.board == replace(load_target("edge-256").board, sram_bytes=65536)


def changed(old: str, new: str) -> str:
    assert EDGE.count(old) == 1
    return EDGE.replace(old, new)


WRONG = {
    "negative size": (changed("sram_bytes = 524288", "sram_bytes = -1"), "board.sram_bytes = -1, allowed: an integer"),
    "wrong type": (changed("cin_lanes = 16", 'cin_lanes = "16"'), "architecture.cin_lanes = '16', allowed: an integer"),
    "float": (changed("queue_depth = 16", "queue_depth = 16.0"), "costs.queue_depth = 16.0, allowed: an integer"),
    "bool for int": (changed("kernel = 256", "kernel = true"), "limits.kernel = True, allowed: an integer from 1"),
    "int for bool": (changed("has_dram = false", "has_dram = 0"), "architecture.has_dram = 0, allowed: true or false"),
    "too wide": (changed("batch = 2048", "batch = 2049"), "limits.batch = 2049, allowed: an integer from 1 to 2048"),
    "rate": (changed("vector_add = 4", "vector_add = [4, 0]"), "costs.vector_add = 0, allowed: an integer from 1"),
    "rate of three": (changed("vector_add = 4", "vector_add = [1, 2, 3]"), r"or \[numerator, denominator\]"),
    "taps": (changed("[[16, 1]]", "[16, 1]"), r"costs.mac_step_taps = \[16, 1\], allowed: a list of 1 to 8 pairs"),
    "missing key": (changed("pad = 255\n", ""), "key limits.pad is missing"),
    "unknown key": (changed("pad = 255", "pad = 255\npads = 1"), "unknown key limits.pads, allowed: concat_inputs, "),
    "unknown table": (EDGE + "[extra]\n", "unknown key 'extra', allowed: description, extends, architecture"),
    "missing table": (EDGE[: EDGE.index("[board]")], r"table \[board\] is missing"),
    "dram without memory": (changed("has_dram = false", "has_dram = true"), "board.dram_bytes = 0, allowed with"),
    "memory without dram": (changed("dram_bytes = 0", "dram_bytes = 1"), "board.dram_bytes = 1, allowed with"),
    "unknown parent": ('extends = "../edge-256"\n', "extends = '../edge-256', allowed: edge-128"),
    "chain": ('extends = "edge-64"\n', "extends = 'edge-64', which extends another target itself"),
    "description": ("description = 1\n", "description = 1, allowed: text"),
    "table that is no table": ('extends = "edge-256"\nboard = 3\n', r"table \[board\] is missing"),
    "not TOML": ("[board\n", "not a TOML file: "),
    "too long": ("#" * 70000, "has more than 65536 bytes"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_in_one_line(case: str, tmp_path: Path) -> None:
    text, message = WRONG[case]
    with pytest.raises(IsaError, match=f"mine.toml: .*{message}") as caught:
        load_target(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_unknown_names_and_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IsaError, match=r"unknown target 'edge-1024', allowed: edge-128, edge-256, "):
        load_target("edge-1024")
    with pytest.raises(IsaError, match=r"gone.toml: cannot read target: no such file"):
        load_target(tmp_path / "gone.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(IsaError, match=r"binary.toml: not a TOML file"):
        load_target(tmp_path / "binary.toml")
    (tmp_path / "My Chip.toml").write_text(EDGE)
    with pytest.raises(IsaError, match="target name 'My Chip', allowed: "):
        load_target(tmp_path / "My Chip.toml")
