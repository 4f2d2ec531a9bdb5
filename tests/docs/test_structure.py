"""Rooms have a readable size, names stand for one thing, and imports go one way."""

from __future__ import annotations

import ast
import gc
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "sfumato"
FILES = sorted(PACKAGE.rglob("*.py"))

MODULES_IN_A_FOLDER = 20
LINES_IN_A_FUNCTION = 45

PARALLEL = ("engines/duckdb", "engines/postgres", "engines/spark", "ledger/sqlite", "ledger/postgres")
"""Backends side by side have the same files with the same classes, so that they can be compared."""


KINDS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)


@cache
def nodes() -> dict[Path, list[ast.AST]]:
    """Return the statements of `KINDS` of every file. Each file is parsed and walked once for all tests."""
    gc.disable()  # it would look through a million nodes again and again
    try:
        return {file: [*statements(ast.parse(file.read_bytes()))] for file in FILES}
    finally:
        gc.enable()


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of `KINDS`. Expressions, most of a tree, contain none of them and are not searched."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        if isinstance(node, KINDS):
            yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())


def room(file: Path) -> str:
    return file.parent.relative_to(PACKAGE).as_posix()


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(file): file for file in FILES}


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for file, found in nodes().items():
        for node in found:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield file, node


def test_the_top_level_holds_packages_only() -> None:
    assert [file.name for file in PACKAGE.glob("*.py")] == ["__init__.py"]


def test_folders_are_small() -> None:
    sizes = Counter(room(file) for file in FILES if file.name != "__init__.py")
    assert {name: size for name, size in sizes.items() if size > MODULES_IN_A_FOLDER} == {}


def test_every_folder_says_what_lives_there() -> None:
    folders = {file.parent for file in FILES}
    silent = [
        room(folder / "x") for folder in folders if not ast.get_docstring(nodes()[folder / "__init__.py"][0])
    ]
    assert silent == []


def test_class_names_are_unique() -> None:
    places = defaultdict(set)
    for file, found in nodes().items():
        # Backends side by side count as one place; private classes are nobody else's business.
        place = "a backend" if room(file) in PARALLEL else module_name(file)
        for node in found:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(place)
    assert {name: sorted(found) for name, found in places.items() if len(found) > 1} == {}


def test_functions_are_short() -> None:
    long = {}
    for file, node in functions():
        first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
        lines = (node.end_lineno or 0) - first.lineno + 1
        if lines > LINES_IN_A_FUNCTION:
            long[f"{module_name(file)}.{node.name}"] = lines
    assert long == {}


def test_docstrings_are_sentences() -> None:
    """A docstring says what is returned or done; it does not lean on the line above it."""
    odd = []
    for file, found in nodes().items():
        for node in found:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                said = ast.get_docstring(node) or ""
                if said.startswith(("Of ", "As ", "The same")):
                    odd.append(f"{file.relative_to(ROOT)}: {said.splitlines()[0]}")
    assert odd == []


# ---- imports -----------------------------------------------------------------------------------------------


def imported(found: list[ast.AST]) -> Iterator[str]:
    """Every module of the package that another imports, for types alone and inside of functions too."""
    for node in found:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in NAMES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_module_imports_itself_in_the_end() -> None:
    graph = {
        module_name(file): {name for name in imported(found) if name in NAMES} - {module_name(file)}
        for file, found in nodes().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


OWNERS = {
    "Only engines speak to DuckDB and Spark": {"engines"},
    "Only learn knows scikit-learn": {"learn"},
    "Only engines and the ledger speak to PostgreSQL": {"engines", "ledger"},
    "Only queries parses SQL and only engines write it": {"queries", "engines"},
    "Only privacy knows dp-accounting": {"privacy"},
    "Only the ledger signs, and only noise of deep nets comes from a cipher": {"deep", "ledger"},
    "Only deep knows torch": {"deep"},
    "Only the server speaks HTTP": {"server"},
    "Only viz draws": {"viz"},
}
"""Rules that keep a library out of all rooms but these."""


def test_import_rules_cover_every_room() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    contracts = {rule["name"]: rule for rule in rules["contracts"]}
    rooms = {f"sfumato.{file.parent.name}" for file in PACKAGE.glob("*/__init__.py")}
    layers = contracts["Rooms import downwards only"]["layers"]
    assert {name.strip() for layer in layers for name in layer.replace("|", ":").split(":")} == rooms
    for name, owners in OWNERS.items():
        assert set(contracts[name]["source_modules"]) == rooms - {f"sfumato.{owner}" for owner in owners}
