"""Equal constants are stored once."""

from __future__ import annotations

import hashlib

from npuc.graph.rewrite import Rewriter
from npuc.graph.types import Array
from npuc.passes.rule import graph_pass


@graph_pass
def share_constants(graph: Rewriter) -> None:
    """Constants of the same type and bytes are one constant; the first in the graph stays, outputs keep their names."""
    first: dict[tuple[object, str, bytes], str] = {}
    for name, array in graph.constants.items():
        kept = first.setdefault((graph.type_of(name), *content(array)), name)
        if kept != name:
            graph.redirect(name, kept)


def content(array: Array) -> tuple[str, bytes]:
    """Key that is equal for equal bytes; a digest, so that weights are not copied."""
    return array.dtype.str, hashlib.sha256(array.tobytes()).digest()
