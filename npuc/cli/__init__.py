"""The command line: one file a command; `main` is the entry point and turns every failure into a line and a status."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run `npuc` with the arguments, those of the process by default; exits with the status of docs/cli.md."""
    use_one_thread()
    from npuc.cli.app import app

    logging.basicConfig(format="warning: %(message)s", level=logging.WARNING)
    try:
        app(args=None if arguments is None else list(arguments), prog_name="npuc")
    except Exception as error:  # noqa: BLE001 - the last line of defense: no user sees a traceback
        from npuc.cli.failure import report

        sys.exit(report(error))
    sys.exit(0)


def use_one_thread() -> None:
    """Keep BLAS to one thread unless the user says otherwise: on a busy machine its threads wait by spinning.

    It takes effect because nothing has imported numpy yet.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
