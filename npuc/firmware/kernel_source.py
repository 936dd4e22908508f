"""The C files that given kernels need: those that define them, and those that define what these use."""

from __future__ import annotations

import re
from collections.abc import Iterable

from npuc.firmware.kernel_header import HEADER
from npuc.firmware.toolchain import KERNELS, kernel_sources

TABLE = "table.c"
"""The table of all kernels; firmware has one of its own for each model."""

_DEFINED = re.compile(
    r"^(?!static\b|typedef\b|extern\b|#)[a-z][\w \t*]*?\b(npuc_\w+)\s*(?:\([^;{]*\)\s*\{|\[[^;]*=)", re.M
)
_USED = re.compile(r"\bnpuc_\w+")


def kernel_files(kernels: Iterable[str] | None = None) -> dict[str, str]:
    """Text of the C files for these kernels, all of them by default, and of the headers, by name in a firmware folder.

    The driver includes `npuc_kernels.h`, which is there without kernels, too.
    """
    sources = {path.name: path.read_text(encoding="utf-8") for path in kernel_sources() if path.name != TABLE}
    home = {symbol: name for name, text in sources.items() for symbol in _DEFINED.findall(text)}
    symbols = list(home) if kernels is None else [f"npuc_{name}" for name in kernels]
    needed: dict[str, str] = {}
    while symbols:
        name = home.get(symbols.pop())
        if name is not None and name not in needed:
            needed[name] = sources[name]
            symbols += _USED.findall(sources[name])
    headers = sorted(KERNELS.glob("*.h")) if needed else [HEADER]
    files = {f"npuc_kernel_{name}": text for name, text in sorted(needed.items())}
    return files | {path.name: path.read_text(encoding="utf-8") for path in headers}
