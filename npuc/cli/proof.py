"""What the static verifier says of a program, as the commands use it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from npuc.errors import ImportFailure, InvalidGraph

if TYPE_CHECKING:
    from npuc.compiler import Compiled
    from npuc.verify import Finding

STAGE = "verify"


def require_proof(compiled: Compiled, sram_bytes: int | None, *, is_edited: bool) -> dict[str, Any]:
    """What was proven of a new program for every legal timing, for `compile --json`.

    InvalidGraph, a bug of npuc, when it is not safe; ImportFailure when its schedule came from a file.
    """
    from npuc.verify import verify_program

    began = time.process_time()
    verdict = verify_program(compiled.program, compiled.debug_map, sram_bytes=sram_bytes)
    if verdict.ok:
        return {"proofs": verdict.proofs, "proof_cpu_s": round(time.process_time() - began, 3)}
    found = [*verdict.races, *verdict.findings]
    more = f", and {len(found) - 1} more findings" if len(found) > 1 else ""
    message = f"the program is not safe for every timing: {found[0].kind}: {found[0].message}{more}"
    if is_edited:
        raise ImportFailure(message, stage=STAGE, hint="correct the schedule, or search again without it")
    raise InvalidGraph(message, stage=STAGE)


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding for `verify --json`."""
    return {"kind": finding.kind, "message": finding.message, "instructions": list(finding.instructions)}


def proof_text(proofs: Mapping[str, int]) -> str:
    """The proofs and how much each covered, on one line."""
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in proofs.items())
