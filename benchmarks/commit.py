"""What was measured: the commit, and a digest of the sources that figures depend on."""

from __future__ import annotations

import hashlib
import subprocess

from benchmarks.network import ROOT

RESULTS = (
    "docs/acceptance.json", "docs/anchors.json", "docs/anchors.md", "docs/mutation.json",
    "docs/timing-accuracy.json", "docs/timing-accuracy.md",
)  # fmt: skip
"""Files that measuring writes: they do not make a tree differ from its commit."""

PACKAGES = ("calibration", "isa", "npuc", "simulator")


def measured_commit() -> str:
    """The commit; with `+changes` when the tree differs from it, so that nothing is skipped later."""
    commit = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--", ".", *(f":!{path}" for path in RESULTS))
    return f"{commit}+changes" if changed else commit


def git(*arguments: str) -> str:
    """Output of a git command."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def source_digest() -> str:
    """SHA-256 of the packages: equal sources give equal programs, whatever the commit says."""
    digest = hashlib.sha256()
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "--", *PACKAGES)
    for name in sorted(listed.splitlines()):
        if (ROOT / name).is_file():
            digest.update(f"{name}\0".encode() + (ROOT / name).read_bytes() + b"\0")
    return digest.hexdigest()
