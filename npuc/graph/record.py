"""Frozen dataclasses as JSON and back, driven by their type hints; the reader accepts exactly what the writer makes."""

from __future__ import annotations

import math
import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

Record = TypeVar("Record")

INFINITIES = ("-infinity", "infinity")
"""What JSON has no numbers for."""


def to_json(value: Any) -> Any:
    """JSON of a dataclass (an object of all its fields), tuple (a list), number, string, boolean or None.

    An infinite number becomes a string.
    """
    if is_dataclass(value):
        return {item.name: to_json(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isinf(value):
        return INFINITIES[value > 0]
    return value


def from_json(kind: type[Record], value: Any) -> Record:
    """The dataclass of type `kind` that `to_json` wrote; ValueError for anything else."""
    hints = _hints(kind)  # type: ignore[arg-type]
    if not isinstance(value, dict) or value.keys() != hints.keys():
        raise ValueError(f"{kind.__name__} is {_short(value)}, allowed: an object with {', '.join(hints) or 'no keys'}")
    return kind(**{key: _read(hints[key], value[key], f"{kind.__name__}.{key}") for key in hints})


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind)}


def _read(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        (inner,) = [argument for argument in arguments if argument is not types.NoneType]
        return None if value is None else _read(inner, value, where)
    if origin is tuple:
        return _read_tuple(arguments, value, where)
    if is_dataclass(hint):
        return from_json(hint, value)  # type: ignore[arg-type]
    if hint is float and value in INFINITIES:
        return math.inf if value == INFINITIES[1] else -math.inf
    allowed = _allows_literal(arguments, value) if origin is Literal else _allows(hint, value)
    if not allowed:
        raise ValueError(f"{where} is {_short(value)}, allowed: {getattr(hint, '__name__', arguments)}")
    return value


def _read_tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is {_short(value)}, allowed: a list")
    hints = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
    if len(hints) != len(value):
        raise ValueError(f"{where} has {len(value)} values, allowed: {len(hints)}")
    return tuple(_read(hint, item, where) for hint, item in zip(hints, value, strict=True))


def _allows(hint: Any, value: Any) -> bool:
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return type(value) is hint


def _allows_literal(arguments: tuple[Any, ...], value: Any) -> bool:
    return isinstance(value, str) and value in arguments


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
