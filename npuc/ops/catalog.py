"""Every operator family, imported so that the two tables are complete; take the tables from here."""

from npuc.ops import constant, conv, elementwise, matmul, normalize, pool, reshaping, resize, selection, unary
from npuc.ops.onnx_rule import EXPORT_FORMS, IMPORT_RULES

__all__ = ["EXPORT_FORMS", "FAMILIES", "IMPORT_RULES"]

FAMILIES = (elementwise, unary, conv, pool, matmul, normalize, reshaping, selection, resize, constant)
