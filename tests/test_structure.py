"""The house rules that a machine can check: imports, sizes, names, packaging. docs/README.md lists them."""

import ast
import io
import re
import shutil
import statistics
import subprocess
import sys
import tokenize
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.shared_data import ROOT

PACKAGES = ("isa", "simulator", "calibration", "npuc")

MAY_IMPORT = {"isa": set(), "calibration": set(), "simulator": {"isa"}, "npuc": {"isa", "calibration"}}

# The parts of npuc in pipeline order: a part imports itself and the parts before it. The longest entry wins.
PIPELINE = (
    "errors",
    "options",
    "graph.types",
    "ops",
    "graph",
    "importer",
    "passes",
    "ptq",
    "legalize",
    "layout",
    "arm",
    "lower",
    "task",
    "allocation",
    "schedule",
    "partition",
    "lock",
    "emit",
    "firmware",
    "verify",
    "compiler",
    "cli",
)

# These stand outside the pipeline: they may import any part of npuc, and the simulator.
FACADE = re.compile(r"npuc|npuc\.__main__|npuc\.cli(_\w+)?(\..+)?")

# Modules that are one long table and nothing else.
TABLES: set[str] = set()

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

HEAVY = {"ortools", "onnxruntime"}

REGISTRY_HOST = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|debian|ubuntu|anaconda|crates)\.(?:org|com|io|net)\b"
    r"|--(?:(?:extra-)?index-url|find-links|trusted-host)"
)
LOCAL_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|opt|mnt|Users)/\w")


@dataclass(frozen=True)
class Source:
    """One parsed Python file; `module` is its dotted name, that of the package for `__init__.py`."""

    path: str
    module: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]

    @property
    def n_lines(self) -> int:
        return self.text.count("\n")

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    return tuple(read_source(path) for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))


def read_source(path: Path) -> Source:
    relative = path.relative_to(ROOT)
    parts = relative.with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Source(str(relative), module, text, ast.parse(text))


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported, at any depth; `from a import b` gives both a and a.b."""
    here = source.module.split(".")
    if not source.path.endswith("__init__.py"):
        here = here[:-1]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = here[: len(here) - node.level + 1] if node.level else []
            origin = ".".join([*parent, *filter(None, [node.module])])
            yield node.lineno, origin
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


@cache
def project_files() -> tuple[str, ...]:
    """Files under version control and new files that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(name for name in listing.splitlines() if (ROOT / name).is_file())


# Imports --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_the_siblings_they_may(package: str) -> None:
    assert sources(package), f"package {package} is empty"
    found = [
        f"{source.path}:{line} imports {name}"
        for source in sources(package)
        for line, name in imports(source)
        if name.partition(".")[0] in {*PACKAGES, "tests", "benchmarks", "examples"} - MAY_IMPORT[package] - {package}
        and not (name.partition(".")[0] == "simulator" and FACADE.fullmatch(source.module))
    ]
    assert not found


def test_compiler_imports_follow_the_pipeline() -> None:
    found = []
    for source in sources("npuc"):
        if FACADE.fullmatch(source.module):
            continue
        place = pipeline_place(source.module)
        assert place is not None, f"{source.path}: give {source.module} its place in PIPELINE"
        found += [
            f"{source.path}:{line} imports {name}, which comes after {PIPELINE[place]}"
            for line, name in imports(source)
            if (imported := pipeline_place(name)) is not None and imported > place
        ]
    assert not found


def pipeline_place(module: str) -> int | None:
    """Index in PIPELINE of the longest entry that holds npuc.<module>."""
    entries = [entry for entry in PIPELINE if f"{module}.".startswith(f"npuc.{entry}.")]
    return PIPELINE.index(max(entries, key=len)) if entries else None


@pytest.mark.parametrize("folders", [PACKAGES, (*PACKAGES, "tests")], ids=["packages", "tests"])
def test_third_party_imports_are_declared_dependencies(folders: tuple[str, ...]) -> None:
    extras = project()["optional-dependencies"]
    declared = {*project()["dependencies"], *(row for name in extras if name != "dev" for row in extras[name])}
    if "tests" in folders:
        declared |= set(extras["dev"])
    allowed = {distribution_name(row) for row in declared}
    known = packages_distributions()
    skip = {*sys.stdlib_module_names, *PACKAGES, "tests", "benchmarks", "examples", ""}
    found = [
        f"{source.path}:{line} imports {name}"
        for source in sources(*folders)
        for line, name in imports(source)
        if (top := name.partition(".")[0]) not in skip
        and not {distribution_name(owner) for owner in known.get(top, [top])} & allowed
    ]
    assert not found


@pytest.mark.parametrize("arguments", [["--help"], ["disasm", "--help"]], ids=" ".join)
def test_command_line_starts_without_solver_or_runtime(arguments: list[str]) -> None:
    program = f"""
import sys
from npuc.cli import main
sys.argv = ["npuc", *{arguments!r}]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
print("loaded:", *sorted({HEAVY!r} & set(sys.modules)))
"""
    assert run_python(program).splitlines()[-1].split() == ["loaded:"]


@pytest.mark.parametrize("package", ["isa", "calibration", "simulator"])
def test_package_imports_where_no_compiler_is_installed(package: str) -> None:
    absent = {*PACKAGES, "onnx", "onnxruntime", "ortools", "tflite", "typer"} - MAY_IMPORT[package] - {package}
    run_python(f"import sys; sys.modules.update(dict.fromkeys({sorted(absent)!r})); import {package}")


def run_python(program: str) -> str:
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


# Sizes ----------------------------------------------------------------------------------------------------------------


def test_modules_stay_within_500_lines() -> None:
    every = sources(*PACKAGES, "tests", "benchmarks", "examples")
    assert not [f"{s.path}: {s.n_lines} lines" for s in every if s.n_lines > 500 and s.path not in TABLES]


def test_half_of_the_modules_stay_within_200_lines_and_of_the_functions_within_8() -> None:
    every = sources(*PACKAGES)
    assert statistics.median(source.n_lines for source in every) <= 200
    assert statistics.median(length(function) for source in every for function in source.functions()) <= 8


def test_no_function_is_longer_than_60_lines() -> None:
    every = sources(*PACKAGES, "tests", "benchmarks", "examples")
    found = [
        f"{source.path}:{function.lineno} {function.name}: {length(function)} lines"
        for source in every
        for function in source.functions()
        if length(function) > 60
    ]
    assert not found


def test_at_most_2_percent_of_functions_are_longer_than_40_lines() -> None:
    lengths = {
        f"{source.path}:{function.lineno} {function.name}": length(function)
        for source in sources(*PACKAGES)
        for function in source.functions()
    }
    long = [f"{name}: {lines} lines" for name, lines in lengths.items() if lines > 40]
    assert len(long) <= 0.02 * len(lengths), "\n".join(long)


def test_comments_are_at_most_a_tenth_of_the_lines() -> None:
    every = sources(*PACKAGES)
    assert sum(map(n_comment_lines, every)) <= 0.1 * sum(source.n_lines for source in every)


def n_comment_lines(source: Source) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return sum(token.type == tokenize.COMMENT and token.line.lstrip().startswith("#") for token in tokens)


# Habits ---------------------------------------------------------------------------------------------------------------


def test_every_function_is_fully_annotated() -> None:
    found = [
        f"{source.path}:{function.lineno} {function.name}"
        for source in sources(*PACKAGES, "tests", "benchmarks", "examples")
        for function in source.functions()
        if function.returns is None or any(argument.annotation is None for argument in own_arguments(function))
    ]
    assert not found


def own_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [argument for argument in named if argument.arg not in ("self", "cls")] + starred


def test_packages_verify_with_code_that_raises_not_with_assert() -> None:
    found = [
        f"{source.path}:{node.lineno}"
        for source in sources(*PACKAGES)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assert)
    ]
    assert not found


def test_modules_are_named_after_an_idea() -> None:
    found = [
        source.path
        for source in sources(*PACKAGES)
        if {part.strip("_") for part in source.module.split(".")} & FORBIDDEN_NAMES
    ]
    assert not found


def test_files_name_no_registry_and_no_local_path() -> None:
    found = []
    for name in project_files():
        data = (ROOT / name).read_bytes()
        if b"\0" in data:
            continue
        for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
            if match := REGISTRY_HOST.search(line) or LOCAL_PATH.search(line):
                found.append(f"{name}:{number}: {match.group()}")
    assert not found


# Documents ------------------------------------------------------------------------------------------------------------

LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")  # relative ones: no scheme


def documents() -> list[Path]:
    return [ROOT / name for name in project_files() if name.endswith(".md")]


def test_links_in_documents_lead_somewhere() -> None:
    found = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in documents()
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not found


def test_every_page_of_the_docs_is_in_its_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target).resolve() for target in LINK.findall(index.read_text(encoding="utf-8"))}
    pages = [page for page in documents() if page.parent == index.parent and page != index]
    assert not [page.name for page in pages if page.resolve() not in listed]


# Packaging ------------------------------------------------------------------------------------------------------------


@cache
def project() -> dict[str, dict[str, list[str]]]:
    table: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def distribution_name(requirement: str) -> str:
    """`Typing_Extensions>=4` -> `typing-extensions`."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip())[0]).lower()


def test_lock_pins_every_package_a_fresh_install_gets() -> None:
    rows = [row for row in (ROOT / "requirements.lock").read_text().splitlines() if not row.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", row) for row in rows)
    pinned = {distribution_name(row) for row in rows}
    wanted = {*project()["dependencies"], *project()["optional-dependencies"]["dev"]}
    assert {distribution_name(row) for row in wanted} <= pinned


def test_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    wanted = {name for name in project_files() if name.partition("/")[0] in PACKAGES}
    for name in {*wanted, "pyproject.toml", "README.md", "LICENSE"}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    build = "from hatchling.build import build_wheel; print(build_wheel('.'))"
    result = subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    with zipfile.ZipFile(tmp_path / result.stdout.splitlines()[-1]) as wheel:
        assert wanted <= set(wheel.namelist())
