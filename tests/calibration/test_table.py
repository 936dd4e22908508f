"""Quantization tables: round trip, bytes, atomicity, and files that lie."""

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import (
    CalibrationError,
    Collected,
    QuantTable,
    quantize_range,
    read_table,
    table_from_ranges,
    write_table,
)
from calibration.table_file import format_table, parse_table

SHA256 = "0123456789abcdef" * 4
ENTRY = '"conv1": {"dtype": "int8", "hi": 1.0, "lo": -1.0, "scale": 0.0078125, "zero_point": 0}'

bounds = st.floats(-(2.0**100), 2.0**100, width=32)
entries = st.tuples(bounds, bounds, st.sampled_from(["int8", "uint8", "int16"])).map(
    lambda drawn: quantize_range(min(drawn[:2]), max(drawn[:2]), drawn[2])
)
tables = st.builds(
    QuantTable,
    model_sha256=st.just(SHA256),
    observer=st.text(),
    n_samples=st.integers(0, 10**6),
    tensors=st.dictionaries(st.text(), entries, max_size=4),
    notes=st.lists(st.text()).map(tuple),
)


def document(**changes: object) -> dict[str, Any]:
    entry = {"scale": 0.0078125, "zero_point": 0, "dtype": "int8", "lo": -1.0, "hi": 1.0}
    entry.update({key: value for key, value in changes.items() if key in entry})
    table = {
        "schema": "npuc.quantization/1",
        "model_sha256": SHA256,
        "observer": "mse",
        "n_samples": 3,
        "tensors": {"conv1": entry},
        "notes": [],
    }
    table.update({key: value for key, value in changes.items() if key in table})
    return table


@given(tables)
def test_tables_round_trip(table: QuantTable) -> None:
    assert parse_table(format_table(table), "t.json") == table


def test_equal_tables_have_equal_bytes(tmp_path: Path) -> None:
    ranges = {"b": (-1.0, 1.0), "a": (0.0, 3.0)}
    swapped = dict(reversed(ranges.items()))
    for name, order in (("one.json", ranges), ("two.json", swapped)):
        write_table(table_from_ranges(Collected(order, "mse", 5, ()), SHA256), tmp_path / name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert read_table(tmp_path / "one.json").tensors["a"].zero_point == -128


def test_a_failed_write_leaves_the_old_table_and_no_temporary(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")
    broken = QuantTable(SHA256, "mse", 1, {"a": quantize_range(0, 1)}, (object(),))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        write_table(broken, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "npuc.quantization/2"}, "t.json: schema: got 'npuc.quantization/2', must be 'npuc.quantization/1'"),
        ({"model_sha256": "AB"}, "t.json: model_sha256: got 'AB', must be 64 lower-case hexadecimal digits"),
        ({"n_samples": -1}, "t.json: n_samples: got -1, must be 0 or more"),
        ({"n_samples": True}, "t.json: n_samples: got True, must be of type int"),
        ({"notes": [1]}, "t.json: a note: got 1, must be a string"),
        ({"tensors": []}, "t.json: tensors: got [], must be of type dict"),
        ({"tensors": {"conv1": 1}}, "t.json: tensor 'conv1': got 1, must be a JSON object"),
        ({"scale": 0}, "t.json: tensor 'conv1': scale: got 0, must be a float32 above 0"),
        ({"scale": -0.1}, "t.json: tensor 'conv1': scale: got -0.1, must be a float32 above 0"),
        ({"scale": 1e-60}, "t.json: tensor 'conv1': scale: got 1e-60, must be a float32 above 0"),
        ({"scale": float("nan")}, "t.json: tensor 'conv1': scale: got nan, must be a finite float32"),
        ({"scale": float("inf")}, "t.json: tensor 'conv1': scale: got inf, must be a finite float32"),
        ({"scale": 1e300}, "t.json: tensor 'conv1': scale: got 1e+300, must be a finite float32"),
        ({"scale": 10**400}, "must be a finite float32"),
        ({"scale": "1"}, "t.json: tensor 'conv1': scale: got '1', must be of type float"),
        ({"zero_point": 128}, "t.json: tensor 'conv1': zero_point: got 128, must be from -128 to 127 for int8"),
        ({"zero_point": 0.0}, "t.json: tensor 'conv1': zero_point: got 0.0, must be of type int"),
        ({"dtype": "int16", "zero_point": 1}, "zero_point: got 1, must be from 0 to 0 for int16"),
        ({"dtype": "int4"}, "t.json: tensor 'conv1': dtype: got 'int4', must be int8 or uint8 or int16"),
        ({"lo": 2.0}, "t.json: tensor 'conv1': lo: got 2.0, must be at most hi 1.0"),
    ],
)
def test_wrong_values_are_refused_in_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(CalibrationError) as refused:
        parse_table(json.dumps(document(**changes)), "t.json")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.hint


def test_missing_and_unknown_keys_are_refused() -> None:
    table = document()
    del table["tensors"]["conv1"]["zero_point"]
    with pytest.raises(CalibrationError, match=r"missing or unknown key: got 'zero_point', must be exactly dtype, hi"):
        parse_table(json.dumps(table), "t.json")
    with pytest.raises(CalibrationError, match="missing or unknown key: got 'extra'"):
        parse_table(json.dumps({**document(), "extra": 1}), "t.json")


def test_duplicate_tensors_are_refused() -> None:
    text = '{"schema": "npuc.quantization/1", "tensors": {' + ENTRY + ", " + ENTRY + "}}"
    with pytest.raises(CalibrationError, match=r"t\.json: name: got 'conv1', must be given once"):
        parse_table(text, "t.json")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":' * 100_000, "1" * 5000, "\x00"])
def test_what_is_not_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(CalibrationError, match=r"^t\.json: "):
        parse_table(text, "t.json")


@given(st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_damaged_tables_are_refused_or_read_but_never_crash(position: int, damage: bytes) -> None:
    text = bytearray(json.dumps(document()).encode())
    text[position : position + len(damage)] = damage
    with contextlib.suppress(CalibrationError):
        parse_table(text.decode("utf-8", "replace"), "t.json")


def test_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json"
    with pytest.raises(CalibrationError, match="cannot be read: No such file"):
        read_table(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CalibrationError, match="byte 0 is not UTF-8 text"):
        read_table(path)
    monkeypatch.setattr("calibration.table_file.MAX_FILE_BYTES", 1)
    with pytest.raises(CalibrationError, match="got 'more than 1 bytes', must be at most 1 bytes"):
        read_table(path)


def test_scales_are_read_as_float32() -> None:
    table = parse_table(json.dumps(document(scale=0.1)), "t.json")
    assert table.tensors["conv1"].scale == float(np.float32(0.1))
