"""Where text goes: results to stdout, messages and progress to stderr, progress only when that is a terminal."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

PIPE_WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""

Advance = Callable[[int, int], None]
"""Takes the number of steps done and the number of all steps."""


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, indent=1, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """A table on stdout; columns whose heading ends in a space are set to the left, the others to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column.rstrip(), justify="left" if column.endswith(" ") else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().strip("\n").splitlines()))


def note(text: str) -> None:
    """A message on stderr."""
    print(text, file=sys.stderr)


@contextmanager
def progress(what: str) -> Iterator[Advance]:
    """A progress bar on stderr while the block runs; nothing when stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
