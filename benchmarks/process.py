"""Commands in processes of their own, with their CPU seconds and peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.network import ROOT, SHARED

NPUC = (str(Path(sys.executable).with_name("npuc")),)
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
OF_MAKE = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"}
"""What `make acceptance ARGS=...` hands down, and no other make must see."""


class Failed(Exception):
    """A command that did not end with the status it should have."""


@dataclass(frozen=True)
class Run:
    """A finished command."""

    command: str
    status: int
    out: str
    err: str
    cpu_s: float
    peak_bytes: int

    @property
    def document(self) -> dict[str, Any]:
        """The JSON that the command printed; Failed when it printed none."""
        try:
            parsed: dict[str, Any] = json.loads(self.out)
        except ValueError:
            raise Failed(f"{self.command}: status {self.status}: {self.err.strip()[:600]}") from None
        return parsed


def run(
    command: Sequence[str | Path], *, statuses: Sequence[int] = (0,), environment: Mapping[str, str] | None = None,
    folder: Path = ROOT,
) -> Run:  # fmt: skip
    """Run a command in a folder, the root of the checkout; Failed when it ends with another status."""
    texts = [str(part) for part in command]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        environment = {**one_thread(), **(environment or {})}
        process = subprocess.Popen(texts, cwd=folder, stdout=out, stderr=err, env=environment)
        _, wait_status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(wait_status)
        out.seek(0)
        err.seek(0)
        cpu_s, peak_bytes = round(usage.ru_utime + usage.ru_stime, 3), usage.ru_maxrss * 1024
        finished = Run(shown(texts), process.returncode, out.read(), err.read(), cpu_s, peak_bytes)
    if finished.status not in statuses:
        raise Failed(f"{finished.command}: status {finished.status}: {finished.err.strip()[:600]}")
    return finished


def one_thread() -> dict[str, str]:
    """This environment with one thread in every BLAS, without what make hands down."""
    return {name: text for name, text in os.environ.items() if name not in OF_MAKE} | ONE_THREAD


def npuc(*arguments: str | Path, **options: Any) -> Run:
    """Run `npuc` with the arguments."""
    return run([*NPUC, *arguments], **options)


def shown(texts: Sequence[str]) -> str:
    """The command as a user would type it, without paths of this machine."""
    text = " ".join(" ".join(texts).split()).replace(" ".join(NPUC), "npuc")
    return text.replace(f"{sys.executable} ", "python ").replace(str(SHARED), "$NPUC_SHARED").replace(f"{ROOT}/", "")
