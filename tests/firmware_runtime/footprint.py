"""What the driver takes, from what the compiler and `size` say of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.shared_data import ROOT

DOCUMENT = ROOT / "docs" / "firmware.md"
ROW = re.compile(r"^\| `(npuc_\w+)` \| (\d+) \| (\d+) \|", re.MULTILINE)


@dataclass(frozen=True)
class Stack:
    """Bytes of stack of a function: its own, and along the deepest chain of calls; hooks and pointers to functions are
    the application's.
    """

    own: int
    deepest: int


def section() -> str:
    """The text of the docs on size."""
    return DOCUMENT.read_text(encoding="utf-8").partition("## Size\n")[2]


def documented_commands() -> list[str]:
    """The commands that the docs measure with."""
    return re.findall(r"^    (\S.*)$", section(), re.MULTILINE)


def documented_stacks() -> dict[str, Stack]:
    """The table of the docs."""
    return {name: Stack(int(own), int(deepest)) for name, own, deepest in ROW.findall(section())}


def documented_bytes() -> tuple[int, int]:
    """Code and static RAM of the docs."""
    (found,) = re.findall(r"([\d,]+) bytes of code and constants, (\d+) of static RAM", section())
    return int(found[0].replace(",", "")), int(found[1])


def total_bytes(output: str) -> tuple[int, int]:
    """Code and static RAM from the last line of `size -t`."""
    text, data, bss = map(int, output.splitlines()[-1].split()[:3])
    return text + data, data + bss


def stacks(folder: Path) -> dict[str, Stack]:
    """Stack of every function, from the files of -fcallgraph-info=su."""
    own: dict[str, int] = {}
    callees: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.ci")):
        text = path.read_text(encoding="utf-8")
        for title, n_bytes in re.findall(r'node: \{ title: "([^"]+)" label: "[^"]*\\n(\d+) bytes', text):
            own[title] = int(n_bytes)
        for caller, callee in re.findall(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', text):
            callees.setdefault(caller, set()).add(callee)
    known = {name: {callee for callee in callees.get(name, ()) if callee in own} for name in own}
    return {name.rpartition(":")[2]: Stack(own[name], deepest(name, own, known)) for name in own}


def deepest(name: str, own: Mapping[str, int], callees: Mapping[str, set[str]]) -> int:
    """Bytes of the deepest chain from a function on; RecursionError when it calls itself."""
    return own[name] + max((deepest(callee, own, callees) for callee in callees[name]), default=0)
