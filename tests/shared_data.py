"""Where the shared models and data are, and what a test does when they are missing.

They lie outside the tree: `../shared`, or `$NPUC_SHARED` (relative to the checkout). A test just calls

    shared_file("models", "onnx", "mnist_cntk.onnx")

Without the folder the test is left out, and the last lines of the run say so; with `CI=true` or `NPUC_REQUIRE_SHARED=1`
it fails instead. A folder that is there but lacks the file is always a failure: then the test's name for it is wrong.
Parametrize by name and call `shared_file` inside the test, so that collection does not depend on the data.
A test that needs the folder before it can call anything is marked `@pytest.mark.shared`.
"""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = (ROOT / os.environ.get("NPUC_SHARED", "../shared")).resolve()
MISSING = "no shared models and data (expected at ../shared or $NPUC_SHARED)"


def is_shared_required() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true") or os.environ.get("NPUC_REQUIRE_SHARED") == "1"


def leave_out(reason: str) -> None:
    """Skip the test for want of a tool, or fail it where everything must run."""
    if is_shared_required():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_shared() -> None:
    """Skip the running test when the shared folder is missing, or fail it where that is not allowed."""
    if SHARED.is_dir():
        return
    if is_shared_required():
        pytest.fail(MISSING, pytrace=False)
    pytest.skip(MISSING, allow_module_level=True)


def shared_file(*parts: str) -> Path:
    """Path of a file or folder in the shared folder, which exists on return."""
    require_shared()
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.fail(f"the shared folder has no {'/'.join(parts)}", pytrace=False)
    return path
