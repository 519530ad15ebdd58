"""What reads with the loop held up is listed, each with its reason: all else that reads may wait for a server."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DAYCARE: Final = Path(__file__).parents[2] / "daycare"
DOCUMENT: Final = DAYCARE.parent / "doc" / "operate" / "several-machines.md"
IN_THE_LOOP: Final = {
    "Secrets.get": "providers read their key in plain code; it is kept in memory until keys change",
}
_READS: Final = {"_reader", "_known"}  # the loop's connection, and what is remembered of its answers
_READS_NOTHING: Final = {"ReadCache.get", "ReadCache.get_all", "ReadCache.forget"}  # what the first are given does


def _of(tree: ast.AST) -> Iterator[tuple[str, ast.FunctionDef]]:
    for kind in ast.walk(tree):
        if isinstance(kind, ast.ClassDef):
            for it in kind.body:
                if isinstance(it, ast.FunctionDef) and not it.name.startswith("_"):
                    yield f"{kind.name}.{it.name}", it


def _private(tree: ast.AST) -> set[str]:
    """Return the private plain methods of a module that read, so that who calls them does."""
    return {
        it.name
        for it in ast.walk(tree)
        if isinstance(it, ast.FunctionDef) and it.name.startswith("_") and it.name != "__init__" and _reads(it, _READS)
    }


def _reads(function: ast.AST, names: set[str]) -> bool:
    return any(isinstance(it, ast.Attribute) and it.attr in names for it in ast.walk(function))


def test_what_plain_code_reads_in_the_loop_is_listed_and_told() -> None:
    found: set[str] = set()
    for file in sorted(DAYCARE.rglob("*.py")):
        text = file.read_text()
        if "_reader" not in text or file.parent.name in ("postgres", "moving"):
            continue
        tree = ast.parse(text)
        names = _READS | _private(tree) | {"_number"}
        found |= {name for name, it in _of(tree) if _reads(it, names)}
    assert found - _READS_NOTHING == IN_THE_LOOP.keys(), "make it `async def`: on a server it holds everybody up"
    document = DOCUMENT.read_text()
    assert all(f"`{name}`" in document for name in IN_THE_LOOP)
