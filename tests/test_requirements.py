"""The table of what was asked for: each test that it names is there, each route is served, no row is left open."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from daycare.api.openapi import endpoints
from tests.references.api import routes

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "doc" / "contribute" / "requirements.md"
ROUTE: Final = re.compile(r"`((?:GET|PUT|POST|PATCH|DELETE) /[^`]+)`")
TEST: Final = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ADAPTERS: Final = re.compile(r" /v1/(identity|chats|projects|workspaces|credentials|agents/\{id\})\b")

SERVED: Final = {each.name for each in endpoints(routes())}

Row = tuple[str, str, str]


def rows() -> list[Row]:
    """Return the rows of all tables: what a document says, where it is here, what holds it."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]
    assert all(len(each) == 3 for each in cells), [each for each in cells if len(each) != 3]
    return [(each[0], each[1], each[2]) for each in cells if each[0] not in ("---", "the document")]


@cache
def named_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file; none where there is no such file."""
    path = ROOT / file
    tree = ast.parse(path.read_text("utf-8")) if path.is_file() else ast.Module([], [])
    found = (node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_what_a_row_names_is_there(row: Row) -> None:
    said, here, held = row
    missing = [f"{file}::{name}" for file, name in TEST.findall(held) if name not in named_in(file)]
    assert missing == [], said
    assert [route for route in ROUTE.findall(here) if route not in SERVED] == [], said
    excused = "*not owed*" in here or here == "another part of the product"
    assert TEST.search(held) or excused, f"{said}: no test holds it"


def test_each_route_of_the_adapters_has_a_row() -> None:
    named = {route for _, here, _ in rows() for route in ROUTE.findall(here)}
    assert {route for route in SERVED if ADAPTERS.search(route)} <= named


def test_every_document_has_a_section() -> None:
    assert re.findall(r"^## (00\d):", PAGE.read_text("utf-8"), re.MULTILINE) == ["001", "004", "000", "002", "003"]
    assert len(rows()) > 100
