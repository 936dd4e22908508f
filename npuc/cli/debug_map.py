"""The debug map beside a program: names of layers, for listings, messages and profiles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from npuc.errors import ImportFailure

MAX_FILE_BYTES = 1 << 28
MAP_SCHEMA = "npuc.map/1"

MapOption = Annotated[
    Path | None,
    typer.Option("--map", metavar="F.npu.map", help="Debug map; default: PROGRAM.map when it exists."),
]

DebugMap = Mapping[str, Any]


def read_map(program: Path, given: Path | None) -> DebugMap:
    """The map that was given, else the one beside the program, else an empty one."""
    path = given or program.with_name(f"{program.name}.map")
    if given is None and not path.exists():
        return {"instructions": []}
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ImportFailure(f"{path}: debug map has more than {MAX_FILE_BYTES} bytes")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or document.get("schema") != MAP_SCHEMA or not _has_rows(document):
        raise ImportFailure(f"{path}: not a debug map of schema {MAP_SCHEMA}", hint="compile the program again")
    return document


def row_entries(document: DebugMap, n_instructions: int | None) -> dict[int, Mapping[str, Any]]:
    """What the map says of each row of a program: its instructions, then its Arm calls; without their number, none."""
    entries = {row["index"]: row for row in document["instructions"]}
    if n_instructions is None:
        return entries
    return entries | {n_instructions + row["index"]: row for row in document.get("calls", [])}


def layer_names(document: DebugMap, n_instructions: int | None = None) -> dict[int, str]:
    """Layer of each row; without the number of instructions, of those alone."""
    return {index: row["layer"] for index, row in row_entries(document, n_instructions).items()}


def layer_descriptions(document: DebugMap, n_instructions: int) -> dict[int, str]:
    """Layer of each row with the source nodes that it comes from, for messages."""
    return {index: _description(row) for index, row in row_entries(document, n_instructions).items()}


def layer_order(document: DebugMap) -> dict[str, int]:
    """Position of each layer in the order of execution."""
    return {row["layer"]: i for i, row in enumerate(document.get("layers", []))}


def _description(row: Mapping[str, Any]) -> str:
    sources = [source for source in row["sources"] if source != row["layer"]]
    return f"{row['layer']} from {', '.join(sources)}" if sources else str(row["layer"])


def _has_rows(document: DebugMap) -> bool:
    tables = [document.get("instructions"), document.get("calls", []), document.get("layers", [])]
    if not all(isinstance(table, list) for table in tables):
        return False
    rows, calls, layers = tables
    return all(map(_is_row, [*rows, *calls])) and all(map(_is_layer, layers))


def _is_layer(row: object) -> bool:
    return isinstance(row, dict) and isinstance(row.get("layer"), str)


def _is_row(row: object) -> bool:
    if not isinstance(row, dict):
        return False
    sources = row.get("sources")
    is_named = isinstance(row.get("layer"), str) and isinstance(sources, list)
    return type(row.get("index")) is int and is_named and all(isinstance(name, str) for name in sources or ())
