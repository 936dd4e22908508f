"""The documents list what the tables hold."""

import re

from npuc.ops.catalog import EXPORT_FORMS, FAMILIES, IMPORT_RULES
from npuc.ops.op import Op
from npuc.passes import GRAPH_PASSES, HARDWARE_PASSES, INTEGER_PASSES
from tests.shared_data import ROOT


def test_the_importer_page_lists_every_operator() -> None:
    page = (ROOT / "docs" / "importer.md").read_text(encoding="utf-8")
    listed = page.partition("<!-- operators")[2].partition("-->")[2].partition("<!-- end -->")[0]
    assert sorted(re.findall(r"\w+", listed)) == sorted({*IMPORT_RULES, "If", "Loop"})


def test_the_pass_page_lists_every_pass() -> None:
    page = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == {
        step.name for step in (*GRAPH_PASSES, *INTEGER_PASSES, *HARDWARE_PASSES)
    }


def test_every_float_operator_has_an_onnx_form() -> None:
    found = {
        kind
        for family in FAMILIES
        for kind in vars(family).values()
        if isinstance(kind, type) and issubclass(kind, Op) and kind.__module__.startswith("npuc.ops.")
    }
    assert {kind.__name__ for kind in found - set(EXPORT_FORMS)} == {"Op", "Elementwise"}
