"""The one exception of this package: input that the contract does not allow."""

from __future__ import annotations


class IsaError(Exception):
    """A value, file or program that breaks the contract between compiler and machine.

    The message is one lower-case line that names what was found and what is allowed; `hint`, in the imperative, says
    what to do about it.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
