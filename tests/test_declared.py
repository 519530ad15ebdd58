"""What is imported is declared: a package that comes with another one may leave with its next version."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest

TREE: Final = Path(__file__).parent.parent
OURS: Final = {"daycare", "daycare_migrations", "daycare_plugins", "tests"}
# Of whom somebody may have it, and who is told what to install where it is wanted.
BROUGHT: Final = {"onnxruntime"}
NAMED_OTHERWISE: Final = {"faiss": "faiss-cpu", "mem0": "mem0ai"}  # not installed with the tests, so nothing tells


def declared(project: dict[str, Any], *extras: str) -> set[str]:
    """Return the distributions that are required, and those of extras, by their normal names."""
    asked = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]
    names = {normal(re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0]) for each in asked}
    return names - {"daycare"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what files import that is neither ours nor Python's, with the file."""
    for file in sorted(file for folder in folders for file in (TREE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                modules = [node.module]
            for module in modules:
                package = module.partition(".")[0]
                if package not in OURS | BROUGHT | sys.stdlib_module_names:
                    yield package, str(file.relative_to(TREE))


@pytest.mark.parametrize(
    ("folders", "without"),
    [(("daycare", "plugins", "migrations"), {"test", "bench", "bench-memory"}), (("tests",), set[str]())],
    ids=["product", "tests"],
)
def test_every_package_that_is_imported_is_declared(folders: tuple[str, ...], without: set[str]) -> None:
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    there = declared(project, *(extra for extra in project["optional-dependencies"] if extra not in without))
    distributions = packages_distributions()
    missing = {
        package: file
        for package, file in imported(folders)
        if there.isdisjoint(map(normal, [NAMED_OTHERWISE.get(package, package), *distributions.get(package, ())]))
    }
    assert not missing
