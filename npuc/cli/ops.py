"""`npuc ops`: what can be compiled, read from the tables that do it."""

from __future__ import annotations

from typing import Any

from npuc.cli.console import print_json, print_table
from npuc.cli.option import Json


def ops(as_json: Json = False) -> None:
    """List the operators of ONNX and TFLite that can be compiled."""
    import npuc.ops.catalog  # noqa: F401 - fills the table of import rules
    from npuc.importer.tflite_rules import RULES
    from npuc.ops.onnx_rule import IMPORT_RULES

    tables = {"onnx": summaries(IMPORT_RULES), "tflite": summaries(RULES)}
    if as_json:
        print_json({"schema": "npuc.ops/1", **tables})
        return
    for name, title in (("onnx", "ONNX"), ("tflite", "TensorFlow Lite")):
        print_table(["operator ", "how it is taken "], sorted(tables[name].items()), title)
        print()


def summaries(rules: dict[str, Any]) -> dict[str, str]:
    """First line of the docstring of each rule, by operator."""
    return {name: first_line(rule) for name, rule in sorted(rules.items())}


def first_line(rule: object) -> str:
    """First line of a docstring."""
    return (rule.__doc__ or "").strip().partition("\n")[0]
