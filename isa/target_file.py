"""Reads targets from TOML, trusting nothing: every key is known, has its type and lies in its range.

A file holds `description`, optionally `extends = "<name of a shipped target>"`, and the tables [architecture],
[limits], [costs], [board] and, where energy is known, [energy], whose keys are the fields of the dataclasses in
`isa/target.py`. A rate is an integer or [numerator, denominator].
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from isa.descriptors import DESCRIPTOR_SLOTS, LAYER
from isa.errors import IsaError
from isa.fields import Field
from isa.instructions import BY_MNEMONIC
from isa.target import Architecture, Board, Costs, Energy, Limits, Rate, Target

FOLDER = Path(__file__).parent / "targets"

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
"""Names of targets; they fit the 32 bytes that the header of a program has for them."""

MAX_FILE_BYTES = 1 << 16

REQUIRED: dict[str, type] = {"architecture": Architecture, "limits": Limits, "costs": Costs, "board": Board}
"""Tables that every target has."""

TABLES: dict[str, type] = {**REQUIRED, "energy": Energy}

Table = TypeVar("Table", Architecture, Limits, Costs, Board, Energy)

_LAYER = {field.name: field for field in LAYER.fields}
_CONV = {field.name: field for field in BY_MNEMONIC["mac.conv"].fields}


def _up_to(field: Field) -> tuple[int, int]:
    return 1, field.high


_DEFAULT_RANGE = (1, (1 << 31) - 1)
_CYCLES = (0, 1 << 20)
_FEMTOJOULES = (0, 1 << 30)

# What the encoding can hold decides what a target may allow.
RANGES: dict[str, tuple[int, int]] = {
    "cin_lanes": (1, 1024),
    "cout_lanes": (1, 1024),
    "channel_block": _up_to(_LAYER["ofm_c0"]),
    "descriptor_slots": (1, DESCRIPTOR_SLOTS),
    "concat_inputs": (2, 65535),
    "split_outputs": (2, 65535),
    "kernel": _up_to(_LAYER["kernel_h"]),
    "stride": _up_to(_LAYER["stride_h"]),
    "dilation": _up_to(_LAYER["dilation_h"]),
    "pad": (0, _LAYER["pad_top"].high),
    "dimension": _up_to(_LAYER["ifm_height"]),
    "batch": (1, _CONV["n"].high + 1),
    "table_count": (0, 65535),
    "accumulator_bits": (16, 64),
    "block_fill_cycles": _CYCLES,
    "block_drain_cycles": _CYCLES,
    "dma_setup_cycles": _CYCLES,
    "dispatch_cycles": _CYCLES,
    "sram_latency_cycles": _CYCLES,
    "flash_latency_cycles": _CYCLES,
    "dram_latency_cycles": _CYCLES,
    "sram_bytes": (1, 1 << 30),
    "dram_bytes": (0, 1 << 30),
    "dram_bytes_per_cycle": (0, 1 << 16),
    "queue_depth": (1, 1 << 15),
    **{field.name: _FEMTOJOULES for field in fields(Energy)},
}


def target_names() -> tuple[str, ...]:
    """Names of the shipped targets, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def load_target(name_or_path: str | Path) -> Target:
    """The shipped target of that name, or the target in the file when the argument ends in `.toml`.

    IsaError for a name that is not shipped, a file that cannot be read, and every violation of its contents.
    """
    text = str(name_or_path)
    if not text.endswith(".toml"):
        return _shipped(text)
    path = Path(text)
    return _build(path.stem, _inherit(_read(path), text), text)


def target_to_dict(target: Target) -> dict[str, Any]:
    """The tables of a target as JSON-able values; `target_from_dict` is its inverse."""
    tables = {name: asdict(table) for name in TABLES if (table := getattr(target, name)) is not None}
    for key, value in tables["costs"].items():
        if isinstance(value, dict):
            tables["costs"][key] = [value["numerator"], value["denominator"]]
    tables["costs"]["mac_step_taps"] = [list(pair) for pair in target.costs.mac_step_taps]
    return {"description": target.description, **tables}


def target_from_dict(name: str, tables: Mapping[str, Any], source: str = "target") -> Target:
    """The target of those tables, validated like a file; IsaError messages begin with `source`."""
    return _build(name, tables, source)


def fingerprint(architecture: Architecture, limits: Limits) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON of what programs depend on."""
    tables = {"architecture": asdict(architecture), "limits": asdict(limits)}
    text = json.dumps(tables, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _shipped(name: str) -> Target:
    if name not in target_names():
        raise IsaError(
            f"unknown target {name!r}, allowed: {', '.join(target_names())}",
            hint="name a shipped target or give the path of a .toml file",
        )
    path = FOLDER / f"{name}.toml"
    return _build(name, _inherit(_read(path), path.name), path.name)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise IsaError(f"{path}: cannot read target: {(error.strerror or str(error)).lower()}") from None
    if len(data) > MAX_FILE_BYTES:
        raise IsaError(f"{path}: target file has more than {MAX_FILE_BYTES} bytes")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise IsaError(f"{path}: not a TOML file: {str(error).splitlines()[0].lower()}") from None


def _inherit(tables: dict[str, Any], source: str) -> dict[str, Any]:
    """Put the tables of the shipped target that `extends` names under those of the file."""
    if "extends" not in tables:
        return tables
    parent = tables["extends"]
    if not isinstance(parent, str) or parent not in target_names():
        raise IsaError(f"{source}: extends = {parent!r}, allowed: {', '.join(target_names())}")
    inherited = _read(FOLDER / f"{parent}.toml")
    if "extends" in inherited:
        raise IsaError(f"{source}: extends = {parent!r}, which extends another target itself; allowed: one level")
    merged = {key: value for key, value in tables.items() if key != "extends"}
    for name in (name for name in TABLES if name in inherited):
        own = merged.get(name, {})
        merged[name] = {**inherited[name], **own} if isinstance(own, dict) else own
    return merged


def _build(name: str, tables: Mapping[str, Any], source: str) -> Target:
    if not NAME.fullmatch(name):
        raise IsaError(f"{source}: target name {name!r}, allowed: 1 to 32 of a-z, 0-9, '.', '_', '-'")
    for key in tables:
        if key not in (*TABLES, "description"):
            raise IsaError(f"{source}: unknown key {key!r}, allowed: description, extends, {', '.join(TABLES)}")
    description = tables.get("description", "")
    if not isinstance(description, str):
        raise IsaError(f"{source}: description = {description!r}, allowed: text")
    architecture = _table(Architecture, "architecture", tables, source)
    limits = _table(Limits, "limits", tables, source)
    costs = _table(Costs, "costs", tables, source)
    board = _table(Board, "board", tables, source)
    energy = _table(Energy, "energy", tables, source) if "energy" in tables else None
    _check_together(architecture, board, source)
    return Target(name, architecture, limits, costs, board, fingerprint(architecture, limits), energy, description)


def _check_together(architecture: Architecture, board: Board, source: str) -> None:
    for key in ("dram_bytes", "dram_bytes_per_cycle"):
        value = getattr(board, key)
        if architecture.has_dram and value == 0:
            raise IsaError(f"{source}: board.{key} = 0, allowed with architecture.has_dram = true: at least 1")
        if not architecture.has_dram and value != 0:
            raise IsaError(f"{source}: board.{key} = {value}, allowed with architecture.has_dram = false: 0")


def _table(kind: type[Table], name: str, tables: Mapping[str, Any], source: str) -> Table:
    table = tables.get(name)
    if not isinstance(table, Mapping):
        raise IsaError(f"{source}: table [{name}] is missing")
    types = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    for key in table:
        if key not in types:
            raise IsaError(f"{source}: unknown key {name}.{key}, allowed: {', '.join(names)}")
    for key in names:
        if key not in table:
            raise IsaError(f"{source}: key {name}.{key} is missing")
    return kind(**{key: _value(types[key], key, table[key], f"{source}: {name}.{key}") for key in names})


def _value(kind: object, key: str, value: object, where: str) -> Any:
    low, high = RANGES.get(key, _DEFAULT_RANGE)
    if kind is bool:
        if not isinstance(value, bool):
            raise IsaError(f"{where} = {value!r}, allowed: true or false")
        return value
    if kind is int:
        return _integer(value, low, high, where)
    if kind is Rate:
        return _rate(value, where)
    return _pairs(value, where)


def _integer(value: object, low: int, high: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise IsaError(f"{where} = {_short(value)}, allowed: an integer from {low} to {high}")
    return value


def _rate(value: object, where: str) -> Rate:
    pair = value if isinstance(value, list | tuple) else [value, 1]
    if len(pair) != 2:
        raise IsaError(f"{where} = {_short(value)}, allowed: an integer or [numerator, denominator]")
    return Rate(_integer(pair[0], 1, 1 << 16, where), _integer(pair[1], 1, 1 << 16, where))


def _pairs(value: object, where: str) -> tuple[tuple[int, int], ...]:
    allowed = "a list of 1 to 8 pairs [input channels, taps]"
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 8:
        raise IsaError(f"{where} = {_short(value)}, allowed: {allowed}")
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise IsaError(f"{where} = {_short(value)}, allowed: {allowed}")
    return tuple((_integer(pair[0], 1, 1024, where), _integer(pair[1], 1, 256, where)) for pair in value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
