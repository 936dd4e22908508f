"""Fixtures and run-wide rules: one thread, seeded draws, golden files, and last lines that say what was left out."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.shared_data import require_shared

if TYPE_CHECKING:
    import numpy as np

# Before numpy is first imported; the workers of xdist inherit it.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

GOLDEN = Path(__file__).parent / "golden"

settings.register_profile("npuc", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("npuc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files in tests/golden")


@pytest.fixture
def rng() -> "np.random.Generator":
    """The same stream in every test and every run."""
    import numpy as np

    return np.random.default_rng(0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("disasm/resnet8.txt", text)` compares text with tests/golden/disasm/resnet8.txt."""
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.exists(), f"tests/golden/{name} is missing: run pytest --update-golden and review it"
        assert text == path.read_text(encoding="utf-8"), f"differs from tests/golden/{name}"

    return check


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("shared"):
        require_shared()


def pytest_unconfigure(config: pytest.Config) -> None:
    """After pytest's closing line: how many tests were left out, and why."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not isinstance(reporter, pytest.TerminalReporter):
        return
    for reason, count in sorted(Counter(map(skip_reason, reporter.stats.get("skipped", []))).items()):
        reporter.write_line(f"left out: {count} test{'s' if count > 1 else ''}: {reason}")


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
