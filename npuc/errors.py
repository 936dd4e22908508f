"""Errors of the compiler, all one line when printed, each with a hint in the imperative.

NpucError
|- ImportFailure       the model cannot be read or is malformed
|- UnsupportedOp       nodes that no unit can run; all of them at once
|- QuantizationError   scales, ranges or calibration data that cannot be used
|- DoesNotFit          a hardware limit or the memory is exceeded
|- UsageError          an option that contradicts the model or another option
`- InvalidGraph        a stage broke the graph: a bug of npuc, and it says so
"""

from __future__ import annotations


class NpucError(Exception):
    """A failure the user can act on: `message` in lower case without a final period, `hint` in the imperative."""

    exit_status = 1

    def __init__(self, message: str, *, node: str = "", stage: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.node = node
        self.stage = stage
        self.hint = hint

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.node and f"node: {self.node}", self.stage and f"stage: {self.stage}")
                          if part)
        lines = [self.message, *([f"  {where}"] if where else []), *([f"  hint: {self.hint}"] if self.hint else [])]
        return "\n".join(lines)


class ImportFailure(NpucError):
    """The model cannot be read or is malformed."""


class UnsupportedOp(NpucError):
    """Nodes that no unit can run; the message lists all of them."""


class QuantizationError(NpucError):
    """Scales, ranges or calibration data that cannot be used."""


class DoesNotFit(NpucError):
    """A hardware limit or a memory is exceeded."""


class UsageError(NpucError):
    """An option that contradicts the model or another option."""

    exit_status = 2


class InvalidGraph(NpucError):
    """A stage broke the graph."""

    exit_status = 70

    def __init__(self, message: str, *, node: str = "", stage: str = "") -> None:
        super().__init__(message, node=node, stage=stage, hint="this is a bug of npuc; please report it with the model")
