"""Sizes that may only shrink: `tests/sizes.toml` holds what is large today. `python -m tests.test_sizes` lowers it.

More than a table allows is raised there by hand, with the reason beside it.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tomlkit

from tests import house

ROOT = Path(__file__).parent.parent
TABLES = ROOT / "tests" / "sizes.toml"
LARGE = {"files": 400, "functions": 70, "constructors": 8}  # lines, lines, arguments: up to here nobody is asked
STEP = 50  # lines: bounds of packages are multiples of it, so that a small change need not touch them
SLACK = 300  # lines: a package that is so far below its bound gets a lower one


@cache
def sizes() -> dict[str, dict[str, int]]:
    """Return the size of every package, file, function and constructor."""
    found: dict[str, dict[str, int]] = {"packages": Counter(), "files": {}, "functions": {}, "constructors": {}}
    for top in ("daycare", "plugins"):
        for file in sorted((ROOT / top).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            lines = len(text.splitlines())
            name = file.relative_to(ROOT).as_posix()
            found["packages"][_package(name)] += lines
            found["files"][name] = lines
            for path, node in _functions(ast.parse(text), ""):
                assert node.end_lineno is not None
                found["functions"][f"{name}: {path}"] = node.end_lineno - node.lineno + 1
                if node.name == "__init__":
                    given = node.args
                    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                    found["constructors"][f"{name}: {path}"] = len(arguments) - 1
    return found


def _package(name: str) -> str:
    """Return what a file counts for: the folder at the top it is in, and of capabilities each by itself."""
    folders = name.split("/")[:-1]
    return "/".join(folders[: 3 if folders[:2] == ["daycare", "features"] else 2])


def _functions(tree: ast.AST, above: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue  # nothing in it has a name of its own
        here = above
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            here = f"{above}.{node.name}" if above else node.name
            if not isinstance(node, ast.ClassDef):
                yield here, node
        yield from _functions(node, here)


def bound(kind: str, name: str, size: int) -> int | None:
    """Return the bound that a size needs in the table, None if it needs none."""
    if kind == "packages":
        return -(-size // STEP) * STEP
    return size if size > LARGE[kind] else None


@pytest.mark.parametrize("kind", ["packages", "files", "functions", "constructors"])
def test_nothing_grows_beyond_its_bound(kind: str) -> None:
    table = tomlkit.parse(TABLES.read_text("utf-8"))[kind].unwrap()
    large = {name: size for name, size in sizes()[kind].items() if size > table.get(name, LARGE.get(kind, 0))}
    assert not large, "is it one concept? Make it smaller, or say in tests/sizes.toml why it cannot be"


@pytest.mark.parametrize("kind", ["packages", "files", "functions", "constructors"])
def test_what_got_smaller_stays_so(kind: str) -> None:
    table = tomlkit.parse(TABLES.read_text("utf-8"))[kind].unwrap()
    slack = SLACK if kind == "packages" else 0
    high = {name for name, size in table.items() if size > (bound(kind, name, sizes()[kind].get(name, 0)) or 0) + slack}
    assert not high, "run: python -m tests.test_sizes"


def test_what_the_count_of_a_reader_s_files_names_is_there() -> None:
    tree = house.Tree(ROOT)
    missing = tree.missing(house.JOURNEYS) + tree.missing(house.ADDED)
    assert not missing, "name in tests/house.py what is on the way now"


def test_a_step_that_is_gone_is_missed() -> None:
    tree = house.Tree(ROOT)
    gone = {"a way": "flow:Intake.accept flow:Intake.swallow agent/nowhere:anything"}
    assert tree.missing(gone) == ["daycare/flow.py: Intake.swallow", "daycare/agent/nowhere.py: anything"]


def lower() -> None:
    """Lower each bound to what it needs to be, and take out those that are not needed any more."""
    document = tomlkit.parse(TABLES.read_text("utf-8"))
    for kind, found in sizes().items():
        for name, size in document[kind].unwrap().items():
            needed = bound(kind, name, found.get(name, 0))
            if not needed:
                del document[kind][name]
            elif needed < size:
                document[kind][name] = needed
    TABLES.write_text(tomlkit.dumps(document), "utf-8")


if __name__ == "__main__":
    lower()
