"""What each TFLite operator means: the rules of all families under TFLite's names."""

from __future__ import annotations

from npuc.importer import (
    tflite_elementwise,
    tflite_float,
    tflite_indexing,
    tflite_lstm,
    tflite_structure,
    tflite_variables,
    tflite_window,
)
from npuc.importer.tflite_site import Rule

FAMILIES = (
    tflite_window,
    tflite_elementwise,
    tflite_structure,
    tflite_float,
    tflite_indexing,
    tflite_lstm,
    tflite_variables,
)

RULES: dict[str, Rule] = {kind: rule for family in FAMILIES for kind, rule in sorted(family.RULES.items())}
