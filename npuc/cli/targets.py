"""`npuc targets`: the machines, or one of them in full."""

from __future__ import annotations

from typing import Annotated

import typer

from npuc.cli.console import print_json, print_table
from npuc.cli.option import Json, complete_target, read_target

Name = Annotated[
    str | None,
    typer.Argument(metavar="[TARGET]", help="Show one target in full.", autocompletion=complete_target),
]


def targets(target: Name = None, as_json: Json = False) -> None:
    """List the targets, or show the fields of one; a .toml file is checked the same way."""
    if target is None:
        list_targets(as_json)
    else:
        show_target(target, as_json)


def list_targets(as_json: bool) -> None:
    """One line for each shipped target."""
    from isa.target_file import load_target, target_names

    found = [load_target(name) for name in target_names()]
    if as_json:
        rows = [{"name": t.name, "fingerprint": t.fingerprint, "description": t.description} for t in found]
        print_json({"schema": "npuc.targets/1", "targets": rows})
        return
    print_table(
        ["target ", "SRAM KiB", "flash B/cycle", "MHz", "description "],
        [
            (t.name, t.board.sram_bytes // 1024, t.board.flash_bytes_per_cycle, t.board.npu_hz // 10**6, t.description)
            for t in found
        ],
    )


def show_target(name: str, as_json: bool) -> None:
    """Every field of one target, by table."""
    from isa.target_file import TABLES, target_to_dict

    target = read_target(name)
    tables = target_to_dict(target)
    if as_json:
        print_json({"schema": "npuc.targets/1", "name": target.name, "fingerprint": target.fingerprint, **tables})
        return
    print(f"{target.name}: {target.description}\nfingerprint {target.fingerprint}")
    for table in (name for name in TABLES if name in tables):
        print(f"\n[{table}]")
        for key, value in tables[table].items():
            print(f"{key} = {str(value).lower() if isinstance(value, bool) else value}")
