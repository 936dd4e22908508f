"""Lock files: every decision of a search, with hashes of what it was made for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from npuc.errors import NpucError, UsageError

SCHEMA = "npuc.lock/1"
KEYS = ("npuc", "model", "target", "options", "schedule")
MAX_BYTES = 64 << 20


class LockError(NpucError):
    """A lock file that is malformed or was made for something else."""


@dataclass(frozen=True)
class Lock:
    """Version, hashes (hex SHA-256) of the quantized model and of the target, options, and the schedule itself."""

    npuc: str
    model: str
    target: str
    options: str
    schedule: str

    def to_text(self) -> str:
        """JSON with sorted keys."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True) + "\n"

    @staticmethod
    def from_text(text: str, source: str = "lock file") -> Lock:
        """Parse a lock; LockError when it is not one."""
        try:
            data = json.loads(text) if len(text) <= MAX_BYTES else None
        except (ValueError, RecursionError) as error:
            raise LockError(f"{source}: not a lock file: {error}", hint="search again with --update-lock") from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA or set(data) != {"schema", *KEYS}:
            raise LockError(f"{source}: not a lock file of schema {SCHEMA}", hint="search again with --update-lock")
        if not all(isinstance(data[key], str) for key in KEYS):
            raise LockError(f"{source}: a field is not a string", hint="search again with --update-lock")
        return Lock(**{key: data[key] for key in KEYS})


def make_lock(schedule: str, model: bytes, target: dict[str, Any], options: dict[str, Any]) -> Lock:
    """The lock of a finished search; the arguments are what the search depended on."""
    tables = json.dumps(target, sort_keys=True).encode()
    return Lock(tool_version(), _digest(model), _digest(tables), json.dumps(options, sort_keys=True), schedule)


def check_lock(lock: Lock, current: Lock) -> None:
    """UsageError naming everything that changed since the lock was written."""
    changed = [key for key in KEYS[:-1] if getattr(lock, key) != getattr(current, key)]
    if changed:
        found = [_differences(key, getattr(lock, key), getattr(current, key)) for key in changed]
        details = ", ".join(part for parts in found for part in parts)
        raise UsageError(
            f"the lock file was made for another {details}",
            stage="lock",
            hint="search again with --update-lock, or restore what changed",
        )


def _differences(key: str, locked: str, now: str) -> list[str]:
    """What changed in a field; of the options, which of them."""
    before, after = (_options(text) if key == "options" else None for text in (locked, now))
    if before is None or after is None:
        return [f"{key} (locked {_short(locked)}, now {_short(now)})"]
    names = sorted(before.keys() | after.keys())
    return [
        f"{name} (locked {_short(str(before.get(name)))}, now {_short(str(after.get(name)))})"
        for name in names
        if before.get(name) != after.get(name)
    ] or [f"{key} (written in another way)"]


def _options(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def tool_version() -> str:
    """Version of the installed package."""
    try:
        return version("npuc")
    except PackageNotFoundError:
        return "0"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:12]
