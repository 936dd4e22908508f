"""Records of cells in docs/anchors.json: measured once for each state of the sources, cell by cell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from benchmarks.anchors.cell import CANNOT, CRASHED, DONE, NOT_MEASURED, Cell, Record
from benchmarks.commit import measured_commit, source_digest
from benchmarks.network import ROOT
from benchmarks.process import one_thread

RESULTS = ROOT / "docs" / "anchors.json"
FOLDER = ROOT / "build" / "anchors"
SCHEMA = "npuc.anchors/1"


class Store:
    """The records in a file. Those of other sources than the present ones can be looked at, but are measured again."""

    def __init__(self, path: Path = RESULTS, on_measured: Callable[[Cell, Record], None] | None = None) -> None:
        self.path, self._on_measured = path, on_measured
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.commit, self.sources = document.get("commit", "no commit"), document.get("sources", "")
        self.networks: dict[str, dict[str, Record]] = document.get("networks", {})
        self._is_current = False
        self._tried: set[Cell] = set()
        self._worker: subprocess.Popen[str] | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *failure: object) -> None:
        """Records that were measured while somebody edited the sources are not those of any commit."""
        if self._worker is not None and source_digest() != self.sources:
            print("the sources changed meanwhile: nothing that was measured will be used again", file=sys.stderr)
            self.sources = "changed while they were measured"
            self._write()
        self._stop()

    def look(self, cell: Cell) -> Record:
        """The record of a cell in the file, or one that says that it is not measured."""
        return self.networks.get(cell.network, {}).get(cell.key, {"status": NOT_MEASURED, "error": "not measured"})

    def measure(self, cell: Cell) -> Record:
        """The record of a cell for the present sources: measured now unless it is there; crashes are tried again."""
        self._refresh()
        record = self.look(cell)
        if record["status"] not in (DONE, CANNOT) and cell not in self._tried:
            record = self._ask(cell)
            self._tried.add(cell)
            self.networks.setdefault(cell.network, {})[cell.key] = record
            self._write()
            if self._on_measured is not None:
                self._on_measured(cell, record)
        return record

    def _refresh(self) -> None:
        """Forget, once, what was measured with other sources."""
        if not self._is_current and self.sources != (sources := source_digest()):
            self.sources, self.networks = sources, {}
        self._is_current = True

    def _ask(self, cell: Cell) -> Record:
        worker = self._worker or self._start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        print(json.dumps(asdict(cell)), file=worker.stdin, flush=True)
        line = worker.stdout.readline()
        if not line:
            self._stop()
            return {"status": CRASHED, "error": "the process ended without an answer"}
        record: Record = json.loads(line)
        return record

    def _start(self) -> subprocess.Popen[str]:
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.anchors.worker", str(FOLDER)]
        self._worker = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=one_thread()
        )
        return self._worker

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.communicate()
        self._worker = None

    def _write(self) -> None:
        self.commit = measured_commit()
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(self._text(), encoding="utf-8")
        temporary.replace(self.path)

    def _text(self) -> str:
        """The document with a line for each cell."""
        head = {"schema": SCHEMA, "commit": self.commit, "sources": self.sources}
        networks = ",\n".join(f"  {json.dumps(name)}: {lines(cells)}" for name, cells in self.networks.items())
        return f'{json.dumps(head, indent=1)[:-2]},\n "networks": {{\n{networks}\n }}\n}}\n'


def lines(records: Mapping[str, Record]) -> str:
    """A JSON object with a line for each key."""
    rows = ",\n".join(f"   {json.dumps(key)}: {json.dumps(record)}" for key, record in records.items())
    return f"{{\n{rows}\n  }}"
