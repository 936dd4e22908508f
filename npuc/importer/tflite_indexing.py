"""Positions: where a maximum is, arithmetic on int32, and gathering."""

from __future__ import annotations

from typing import Literal

from npuc.importer.tflite_site import Rule, Site, Unsupported
from npuc.ops.integer.indexing import ArgMax, GatherNd, IndexArithmetic


def is_index(site: Site) -> bool:
    """Whether the first operand holds int32."""
    return site.input(0).dtype == "INT32"


def emit_arithmetic(site: Site, function: Literal["sub", "mul", "floor_div"]) -> None:
    """The same arithmetic on int32, with broadcasting."""
    if site.option("FusedActivationFunction", 0) != 0:
        raise Unsupported("fused activation")
    operands = (site.builder.plain(site.input(0)), site.builder.plain(site.input(1)))
    value = site.builder.emit(IndexArithmetic(function), operands, site.output.name, None)
    site.builder.set_plain(site.output, value)


def import_floor_div(site: Site) -> None:
    """Quotients of int32 by constants."""
    if not is_index(site):
        raise Unsupported(f"{site.input(0).dtype}, only INT32 is supported")
    if 0 in site.integers(1, "divisors"):
        raise ValueError("division by zero")
    emit_arithmetic(site, "floor_div")


def import_arg_max(site: Site) -> None:
    """The first of equal elements."""
    site.quant(site.input(0))
    (number,) = site.integers(1, "axis")
    kinds: dict[str, Literal["int32", "int64"]] = {"INT32": "int32", "INT64": "int64"}
    if site.output.dtype not in kinds:
        raise ValueError(f"output is {site.output.dtype}, need INT32 or INT64")
    op = ArgMax(site.axis(number, len(site.input(0).shape)), kinds[site.output.dtype])
    value = site.builder.emit(op, (site.builder.plain(site.input(0)),), site.output.name, None)
    site.builder.set_plain(site.output, value)


def import_gather_nd(site: Site) -> None:
    """Indices may depend on the inputs."""
    quant = site.require_same_quant()
    operands = (site.builder.plain(site.input(0)), site.builder.plain(site.input(1)))
    site.builder.set_plain(site.output, site.builder.emit(GatherNd(), operands, site.output.name, quant))


RULES: dict[str, Rule] = {
    "ARG_MAX": import_arg_max,
    "FLOOR_DIV": import_floor_div,
    "GATHER_ND": import_gather_nd,
}
