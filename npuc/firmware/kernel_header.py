"""The C header of the kernels, generated from `kernel_spec`: `python -m npuc.firmware.kernel_header` rewrites it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npuc.arm.kernel_function import FUNCTIONS, KINDS
from npuc.arm.kernel_spec import (
    ABSENT,
    COPY_AXES,
    FLASH,
    GATHER_AXES,
    KERNELS,
    MAX_LEFT_SHIFT,
    RECORDS,
    SRAM,
    STATUS,
    Field,
)

HEADER = Path(__file__).parent / "kernels" / "npuc_kernels.h"

_TOP = """\
/* Kernels of npuc for the Arm core; isa/arithmetic.py says what those of integers compute. Generated from
 * npuc/arm/kernel_spec.py.
 *
 * A kernel reads a parameter record (32-bit words, little-endian, 4-byte aligned), computes one operator, and writes
 * its output to SRAM. It keeps no state, so calls may be nested and interrupted. An output must not overlap inputs, but
 * add, mul, table, squash, float_unary and float_binary may write over an operand that has the output's strides and
 * element size. Offsets and strides are trusted.
 */
#ifndef NPUC_KERNELS_H
#define NPUC_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
"""

_BOTTOM = """\
/* Every kernel: `sram` and `flash` are the bases that offsets count from; returns NPUC_KERNEL_OK or a reason. */
typedef int32_t (*npuc_kernel)(const void *parameters, uint8_t *sram, const uint8_t *flash);

typedef struct {
    uint32_t id;
    uint32_t version;
    uint32_t parameter_bytes;
    npuc_kernel run;
} npuc_kernel_entry;

extern const npuc_kernel_entry npuc_kernel_table[NPUC_KERNEL_COUNT];

#ifdef __cplusplus
}
#endif

#endif
"""


def header_text() -> str:
    """The whole header."""
    constants = [
        ("NPUC_ABSENT", ABSENT, "memory of an operand that is not there"),
        ("NPUC_SRAM", SRAM, "memory that kernels read and write"),
        ("NPUC_FLASH", FLASH, "memory that kernels read"),
        ("NPUC_COPY_AXES", COPY_AXES, "axes of a copy"),
        ("NPUC_GATHER_AXES", GATHER_AXES, "axes that an index selects from"),
        ("NPUC_MAX_LEFT_SHIFT", MAX_LEFT_SHIFT, "left shift of an addition"),
        *STATUS,
    ]
    macros = [f"#define {name} {value} /* {doc} */" for name, value, doc in constants]
    macros += _numbered("kind", KINDS)
    macros += [line for family, functions in FUNCTIONS.items() for line in _numbered(family, functions)]
    records = [_record(name, doc, fields) for name, (doc, fields) in RECORDS.items()]
    records += [_record(f"{spec.name}_parameters", spec.doc, spec.fields) for spec in KERNELS]
    rows = [f"    X({spec.name}, {spec.kernel_id}, {spec.version})" for spec in KERNELS]
    table = " \\\n".join(["/* X(name, id, version) for every kernel. */\n#define NPUC_KERNELS(X)", *rows])
    count = f"#define NPUC_KERNEL_COUNT {len(KERNELS)}"
    prototypes = [
        f"int32_t npuc_{spec.name}(const void *parameters, uint8_t *sram, const uint8_t *flash);" for spec in KERNELS
    ]
    parts = [_TOP, "\n".join(macros), "", *records, table, count, "", "\n".join(prototypes), "", _BOTTOM]
    return "\n".join(parts)


def _numbered(family: str, names: Mapping[str, int]) -> list[str]:
    return ["", *(f"#define NPUC_{family.upper()}_{name.upper()} {value}" for name, value in names.items())]


def _record(name: str, doc: str, fields: tuple[Field, ...]) -> str:
    return "\n".join([f"/* {doc} */", "typedef struct {", *map(_member, fields), f"}} npuc_{name};", ""])


def _member(field: Field) -> str:
    kind = "int32_t" if field.kind == "int32" else f"npuc_{field.kind}"
    array = f"[{field.count}]" if field.count > 1 else ""
    return f"    {kind} {field.name}{array};" + (f" /* {field.doc} */" if field.doc else "")


if __name__ == "__main__":
    HEADER.write_text(header_text(), encoding="utf-8", newline="\n")
