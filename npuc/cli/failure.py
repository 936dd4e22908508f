"""What the user sees of a failure: `error: ...` and `  hint: ...` on stderr, and the exit status."""

from __future__ import annotations

import os
import sys
import traceback

from npuc.errors import NpucError

CANNOT = 1
INTERNAL = 70


def report(error: Exception) -> int:
    """Print the failure, with its traceback when NPUC_DEBUG is 1; returns the exit status."""
    text, status = describe(error)
    if os.environ.get("NPUC_DEBUG") == "1":
        traceback.print_exception(error)
    print(f"error: {text}", file=sys.stderr)
    return status


def describe(error: Exception) -> tuple[str, int]:
    """Message with its hint, and exit status: 1 cannot be done, 2 wrong usage, 70 a bug of npuc."""
    from calibration import CalibrationError
    from isa.errors import IsaError
    from simulator.errors import SimulatorFault

    if isinstance(error, NpucError):
        return str(error), error.exit_status
    if isinstance(error, IsaError | CalibrationError | SimulatorFault):
        return with_hint(str(error), error.hint), CANNOT
    if isinstance(error, OSError) and error.strerror:
        return ": ".join([*([str(error.filename)] if error.filename else []), error.strerror.lower()]), CANNOT
    if isinstance(error, MemoryError):
        return with_hint("out of memory", "use fewer samples or a smaller model"), CANNOT
    text = f"internal error: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return with_hint(text, "this is a bug of npuc; report it with the output of NPUC_DEBUG=1"), INTERNAL


def with_hint(message: str, hint: str) -> str:
    """The message, and the hint on a line of its own."""
    return f"{message}\n  hint: {hint}" if hint else message
