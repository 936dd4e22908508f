"""The public CSV format of allocation problems: a line `id,lower,upper,size` for each buffer, optionally `offset`.

Times are half-open, sizes and offsets are bytes. The reader trusts nothing.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from npuc.allocation.placement import Placement
from npuc.allocation.problem import Buffer, InvalidProblem, Problem

REQUIRED = ("id", "lower", "upper", "size")
MAX_FILE_BYTES = 1 << 26
MAX_DIGITS = 18


def read_problem(path: Path, capacity_bytes: int | None = None) -> Problem:
    """Buffers of a CSV file; an `offset` column is ignored, as it is an answer. Raises InvalidProblem, OSError."""
    return Problem(tuple(buffer for buffer, _ in _read_rows(path)), capacity_bytes)


def read_offsets(path: Path) -> dict[str, int]:
    """The `offset` column by buffer name, in bytes. Raises InvalidProblem if it is missing, OSError."""
    offsets = {}
    for buffer, offset in _read_rows(path):
        if offset is None:
            raise InvalidProblem(f"{path}: no offset column")
        offsets[buffer.name] = offset
    return offsets


def write_csv(path: Path, problem: Problem, placement: Placement | None = None) -> None:
    """Write the buffers in their order, with the offsets of a placement; same input, same bytes. Raises OSError."""
    lines = [",".join(REQUIRED + (("offset",) if placement else ()))]
    for buffer in problem.buffers:
        fields = (_plain(buffer.name), buffer.lower, buffer.upper, buffer.size_bytes)
        lines.append(",".join(map(str, fields + ((placement.offsets[buffer.name],) if placement else ()))))
    path.write_bytes(("\n".join(lines) + "\n").encode())


def _read_rows(path: Path) -> Iterator[tuple[Buffer, int | None]]:
    lines = _read_text(path).split("\n")
    header = [field.strip() for field in lines[0].split(",")]
    if sorted(header) not in (sorted(REQUIRED), sorted((*REQUIRED, "offset"))):
        raise InvalidProblem(f"{path}:1: header is {','.join(header)[:80]!r}, expected id,lower,upper,size[,offset]")
    seen: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            buffer, offset = _parse(header, line)
        except (InvalidProblem, csv.Error) as error:
            raise InvalidProblem(f"{path}:{number}: {error}") from None
        if buffer.name in seen:
            raise InvalidProblem(f"{path}:{number}: id {buffer.name} is already used in line {seen[buffer.name]}")
        seen[buffer.name] = number
        yield buffer, offset


def _read_text(path: Path) -> str:
    with path.open("rb") as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise InvalidProblem(f"{path}: more than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidProblem(f"{path}: not UTF-8 at byte {error.start}") from None


def _parse(header: list[str], line: str) -> tuple[Buffer, int | None]:
    fields = [field.strip() for field in next(csv.reader([line], strict=True))]
    if len(fields) != len(header):
        raise InvalidProblem(f"{len(fields)} fields, expected {len(header)}")
    row = dict(zip(header, fields, strict=True))
    if not row["id"]:
        raise InvalidProblem("id is empty")
    lower, upper, size_bytes = (_integer(column, row[column]) for column in REQUIRED[1:])
    offset = _integer("offset", row["offset"]) if "offset" in row else None
    return Buffer(row["id"], lower, upper, size_bytes), offset


def _integer(column: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS):
        raise InvalidProblem(f"{column} is {text[:40]!r}, expected an integer of at most {MAX_DIGITS} digits")
    return int(text)


def _plain(name: str) -> str:
    """Quote a name as CSV does; a line break would not survive the line-by-line reader."""
    if not name or "\n" in name or "\r" in name or name != name.strip():
        raise InvalidProblem(f"buffer {name!r}: a CSV id is not empty and has no line break and no surrounding blank")
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',"') else name
