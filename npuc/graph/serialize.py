"""Integer graphs as bytes and back: the `reference` section of a container, against which a program is checked.

    4 bytes   NPQG
    4 bytes   length of the header, little-endian
    header    JSON: keys sorted, no spaces
    data      the distinct contents of the constants, one behind the other, little-endian

Equal graphs have equal bytes. Operators are written under their class names with all their attributes.
"""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from npuc.errors import ImportFailure, InvalidGraph
from npuc.graph.graph import Graph, Node, State, verify
from npuc.graph.record import from_json, to_json
from npuc.graph.types import ITEM_BYTES, Array, Host, TensorType
from npuc.ops import conv, elementwise, integer, matmul, normalize, pool, structure, unary
from npuc.ops.op import Op

MAGIC = b"NPQG"
PREFIX_BYTES = 8
MAX_ELEMENTS = 1 << 30
"""Of one value; more would not fit the memories of any target."""

FLOAT_FAMILIES = (conv, elementwise, matmul, normalize, pool, unary)

KEYS = {"name", "nodes", "values", "constants", "data", "inputs", "outputs", "host", "states"}


@cache
def operator_kinds() -> dict[str, type[Op]]:
    """The operators of integer graphs, by class name; those on float32 may stand among them."""
    names = [f"{integer.__name__}.{item.name}" for item in pkgutil.iter_modules(integer.__path__)]
    modules = [structure, *FLOAT_FAMILIES, *map(importlib.import_module, sorted(names))]
    return {
        kind.__name__: kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Op) and kind.__module__ == module.__name__
    }


def graph_to_bytes(graph: Graph) -> bytes:
    """The bytes of an integer graph; InvalidGraph when it has an operator that is none of an integer graph."""
    data: dict[bytes, int] = {}
    constants = {}
    for name in sorted(graph.constants):
        constants[name] = data.setdefault(_stored(graph.constants[name]), len(data))
    document = {
        "name": graph.name,
        "nodes": [_node_to_json(node) for node in graph.nodes],
        "values": {name: to_json(kind) for name, kind in graph.values.items()},
        "constants": constants,
        "data": [len(content) for content in data],
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "host": {name: to_json(host) for name, host in graph.host.items()},
        "states": [to_json(state) for state in graph.states],
    }
    header = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    return MAGIC + len(header).to_bytes(4, "little") + header + b"".join(data)


def graph_from_bytes(data: bytes) -> Graph:
    """The verified graph of those bytes; ImportFailure for bytes that are none."""
    try:
        return _read_graph(bytes(data))
    except InvalidGraph as error:
        reason = error.message
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError, RecursionError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
    raise ImportFailure(f"reference graph is malformed: {reason}", stage="reference", hint="compile the program again")


def _stored(array: Array) -> bytes:
    return np.asarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _node_to_json(node: Node) -> dict[str, Any]:
    if operator_kinds().get(node.op.kind) is not type(node.op):
        raise InvalidGraph(f"{node.op.kind} is no operator of an integer graph", node=node.name, stage="reference")
    return {
        "name": node.name,
        "kind": node.op.kind,
        "op": to_json(node.op),
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "sources": list(node.sources),
    }


def _read_graph(data: bytes) -> Graph:
    if data[:4] != MAGIC or len(data) < PREFIX_BYTES:
        raise ValueError("the first bytes are not NPQG")
    end = PREFIX_BYTES + int.from_bytes(data[4:PREFIX_BYTES], "little")
    document = json.loads(data[PREFIX_BYTES:end].decode("ascii"))
    if not isinstance(document, dict) or document.keys() != KEYS:
        raise ValueError(f"the header needs the keys {', '.join(sorted(KEYS))}")
    values = {name: _read_type(name, kind) for name, kind in _object(document["values"]).items()}
    contents = _cut(data, end, document["data"])
    graph = Graph(
        name=_text(document["name"]),
        nodes=tuple(map(_read_node, _list(document["nodes"]))),
        values=values,
        constants=_read_constants(_object(document["constants"]), values, contents),
        inputs=_names(document["inputs"]),
        outputs=_names(document["outputs"]),
        host={name: from_json(Host, host) for name, host in _object(document["host"]).items()},
        states=tuple(from_json(State, state) for state in _list(document["states"])),
    )
    return verify(graph, "reference")


def _read_type(name: str, value: Any) -> TensorType:
    kind = from_json(TensorType, value)
    if min(kind.shape, default=1) < 1 or math.prod(kind.shape) > MAX_ELEMENTS:
        raise ValueError(f"value {name} has shape {list(kind.shape)}, allowed: 1 to {MAX_ELEMENTS} elements")
    return kind


def _cut(data: bytes, start: int, lengths: Any) -> list[bytes]:
    contents = []
    for length in _list(lengths):
        if type(length) is not int or not 0 <= length <= len(data) - start:
            raise ValueError(f"a constant has {length} bytes, {len(data) - start} are left")
        contents.append(data[start : start + length])
        start += length
    if start != len(data):
        raise ValueError(f"{len(data) - start} bytes behind the last constant")
    return contents


def _read_constants(places: Mapping[str, Any], values: Mapping[str, TensorType],
                    contents: list[bytes]) -> dict[str, Array]:  # fmt: skip
    constants = {}
    for name, place in places.items():
        kind = values[name]
        if type(place) is not int or not 0 <= place < len(contents):
            raise ValueError(f"constant {name} has content {place}, there are {len(contents)}")
        if len(contents[place]) != math.prod(kind.shape) * ITEM_BYTES[kind.dtype]:
            raise ValueError(f"constant {name} is {kind}, its content has {len(contents[place])} bytes")
        if kind.dtype == "bool" and contents[place].strip(b"\0\1"):
            raise ValueError(f"constant {name} has a byte that is neither true nor false")
        stored = np.frombuffer(contents[place], np.dtype(kind.dtype).newbyteorder("<"))
        constants[name] = stored.astype(kind.dtype, copy=False).reshape(kind.shape)
    return constants


def _read_node(value: Any) -> Node:
    row = _object(value)
    kind = operator_kinds().get(_text(row["kind"]))
    if kind is None:
        raise ValueError(f"operator {row['kind'][:60]!r} is unknown")
    return Node(
        _text(row["name"]),
        from_json(kind, row["op"]),
        _names(row["inputs"]),
        _names(row["outputs"]),
        _names(row["sources"]),
    )


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, _list(value)))


def _require(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{str(value)[:60]!r}, allowed: {kind.__name__}")
        return value

    return check


_text = _require(str)
_list = _require(list)
_object = _require(dict)
