"""Imports go down only. The table is that of doc/architecture.md; the failure says what to do instead."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "daycare"

GROUND, SERVICES, RULES, ENGINES, AGENT, EDGES, FEATURES, ROOF = range(8)
FLOORS = {
    "base": GROUND,
    "store": SERVICES,
    "config": SERVICES,
    "settings": SERVICES,
    "observe": SERVICES,
    "plugin": SERVICES,
    "webhook": SERVICES,
    "rules": RULES,
    "actors": ENGINES,
    "inference": ENGINES,
    "tools": ENGINES,
    "approvals": ENGINES,
    "memory": ENGINES,
    "agent": AGENT,
    "exports": AGENT,
    "backups": AGENT,
    "flow": AGENT,
    "feature": AGENT,
    "connectors": EDGES,
    "schedule": FEATURES,
    "api": EDGES,
    "plugins": EDGES,
    "daemon": ROOF,
    "ops": ROOF,
    "cli": ROOF,
    "__main__": ROOF,
}
SHARED = {"config", "settings", "observe", "plugin"}  # services that other services may import
BESIDE = "testing"
ONLY_IN = {"apsw": {"store"}, "numpy": {"memory"}, "asyncio": set(), "structlog": {"observe"}, "typer": {"cli"}}
IMPORTABLE_BY_ALL = "daycare"  # the package itself: its version


def _modules() -> Iterator[tuple[str, Path]]:
    for file in sorted(ROOT.rglob("*.py")):
        relative = file.relative_to(ROOT)
        part = relative.parts[0].removesuffix(".py")
        if part not in ("__init__", BESIDE):
            yield part, file


@cache
def _imports(file: Path) -> tuple[tuple[int, str], ...]:
    return tuple(_read(file))


def _read(file: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: relative import; write the whole name"
            module = node.module or ""
            if module == "daycare":
                yield from ((node.lineno, f"daycare.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def _allowed(part: str, other: str) -> bool:
    if part == other or other == "__version__":
        return True
    if part == "cli" and other == BESIDE:
        return True
    mine, theirs = FLOORS[part], FLOORS.get(other)
    if theirs is None:
        return False
    if mine == theirs:
        # the flow and the inside of its turn are one floor in two places; the roof stands together
        return (mine == SERVICES and other in SHARED) or mine in (AGENT, ROOF)
    return theirs < mine


def test_every_part_stands_on_a_floor() -> None:
    unknown = {part for part, _ in _modules()} - FLOORS.keys()
    assert not unknown, f"{unknown}: give each a floor in this table and in doc/architecture.md"


@pytest.mark.parametrize("part", sorted(FLOORS))
def test_imports_go_down_only(part: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT.parent)}:{line}: daycare.{part} may not import {name}; hand it in from daemon.py"
        for owner, file in _modules()
        if owner == part
        for line, name in _imports(file)
        if name.startswith("daycare.") and not _allowed(part, name.split(".")[1])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_heavy_packages_stay_where_they_belong(package: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT.parent)}:{line}: {package} belongs into {ONLY_IN[package] or 'no core package'}"
        for owner, file in _modules()
        for line, name in _imports(file)
        if name.split(".")[0] == package and owner not in ONLY_IN[package]
    ]
    assert not wrong, "\n".join(wrong)


def test_ground_knows_the_standard_library_and_msgspec_only() -> None:
    import sys

    outside = {
        f"{file.name}:{line}: {name}"
        for owner, file in _modules()
        if owner == "base"
        for line, name in _imports(file)
        if name.split(".")[0] not in sys.stdlib_module_names | {"daycare", "msgspec", "cuid2", "cronsim"}
    }
    assert not outside


def test_no_import_cycles_between_modules() -> None:
    graph = {
        ".".join(("daycare", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): {
            name for _, name in _imports(file) if name.startswith("daycare")
        }
        for _, file in _modules()
    }
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, f"import cycle: {' -> '.join((*above, module))}"
        if module not in done:
            for other in graph.get(module, ()):
                if other in graph:
                    visit(other, (*above, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_every_package_is_in_what_gets_installed() -> None:
    """An editable installation, as tests have, finds what an ordinary one would lack."""
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"]) - {"daycare_migrations"}
    there = {
        ".".join((name, *file.parent.relative_to(folder).parts))
        for name, folder in (("daycare", ROOT), ("daycare_plugins", ROOT.parent / "plugins"))
        for file in folder.rglob("__init__.py")
    }
    assert listed == {name for name in there if "skeleton" not in name}


@pytest.mark.parametrize("file", [file for _, file in _modules()], ids=lambda file: str(file.relative_to(ROOT)))
def test_files_stay_readable(file: Path) -> None:
    lines = len(file.read_text(encoding="utf-8").splitlines())
    assert lines <= 450, f"{file} has {lines} lines: is it one concept?"


def test_each_module_says_what_it_is_for() -> None:
    mute = [str(file) for _, file in _modules() if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))]
    assert not mute
