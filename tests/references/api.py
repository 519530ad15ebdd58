"""The HTTP API's requests, read from the routes of a running daemon and from what is said beside their handlers.

What a route answers stands in a paragraph that begins with `Answers`, which is kept when the page is made again.
"""

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
from starlette.routing import BaseRoute

from daycare.api.app import build
from daycare.api.described import MediaBody
from daycare.api.openapi import Endpoint, endpoints
from daycare.testing.daemon import open_daemon

PAGE: Final = Path(__file__).parents[2] / "doc" / "extend" / "api-reference.md"
OBJECTS: Final = "## Objects\n"
MOST: Final = 2**63 - 1  # of a number in a row, which says nothing
Row = tuple[str, ...]  # of a table: cells
COLUMNS: Final[Row] = ("", "name", "type", "default", "meaning")


@cache
def routes() -> tuple[BaseRoute, ...]:
    """Return all routes of a daemon."""

    async def listed() -> tuple[BaseRoute, ...]:
        with tempfile.TemporaryDirectory() as folder:
            async with open_daemon(Path(folder)) as house:
                return tuple(build(house.daemon.services).routes)

    return trio.run(listed)


class Structs:
    """Structs as tables: those that are inside of others are told once, below."""

    def __init__(self) -> None:
        self._inner: dict[str, Any] = {}
        self._named: set[str] = set()

    def rows(self, place: str, kind: Any) -> list[Row]:
        """Return a row for each field of a struct; `place` is where it stands, body or query."""
        schema = msgspec.json.schema(kind)
        self._inner.update(schema.get("$defs", {}))
        return self._table(place, self._inner[_last(schema)] if "$ref" in schema else schema)

    def told(self) -> str:
        """Return the sections of the structs that were named so far."""
        done: dict[str, list[Row]] = {}
        while more := self._named - set(done):
            done |= {name: self._table("", self._inner[name]) for name in more}
        return "\n".join(f"### {name}\n\n{_words(self._inner[name])}{_drawn(done[name])}" for name in sorted(done))

    def _table(self, place: str, schema: dict[str, Any]) -> list[Row]:
        needed = schema.get("required", [])
        made: list[Row] = []
        for name, inner in schema.get("properties", {}).items():
            default = "required" if name in needed else f"`{msgspec.json.encode(inner.get('default')).decode()}`"
            made.append((place, f"`{name}`", self._type(inner), default, _meaning(inner)))
        return made or [(place, "", self._type(schema), "", _meaning(schema))]

    def _type(self, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            name = _last(schema)
            inner = self._inner[name]
            if "properties" not in inner:
                return self._type(inner)
            self._named.add(name)
            return f"[{name}](#{name.lower()})"
        if "anyOf" in schema:
            return " or ".join(dict.fromkeys(map(self._type, schema["anyOf"])))
        if "enum" in schema:
            return "one of " + ", ".join(f"`{each}`" for each in schema["enum"])
        kind = str(schema.get("type", "any"))
        if kind == "array" and isinstance(schema.get("items"), dict):
            kind = f"list of {self._type(schema['items'])}"
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            kind = f"object of {self._type(schema['additionalProperties'])}"
        # 600 and 600.0 are one bound to `typing`, which hands out whichever was written first in this process.
        bounds = [f"{word} {schema[key]:.15g}" for key, word in _BOUNDS.items() if schema.get(key, MOST) != MOST]
        return f"{kind}, {', '.join(bounds)}" if bounds else kind


_BOUNDS: Final = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "minItems": "items at least",
    "maxItems": "items at most",
}


def sections() -> str:
    """Return a section for each route, then the structs."""
    kept = answers()
    structs = Structs()
    made = []
    for each in endpoints(routes()):
        rows = [row for place, kind in _taken(each) for row in structs.rows(place, kind)]
        table = f"\n{_drawn(rows)}" if rows else ""
        answer = f"\n{kept[each.name]}\n" if each.name in kept else ""
        made.append(f"### `{each.name}`\n\n{each.words[0]}\n{table}{answer}")
    return "## Routes\n\n" + "\n".join(made) + "\n" + OBJECTS + "\n" + structs.told()


def _taken(each: Endpoint) -> list[tuple[str, Any]]:
    """Return the types that a route takes; the bytes of a file have none."""
    taken = [("query", each.description.query), ("body", each.description.body)]
    return [(place, kind) for place, kind in taken if kind is not None and not isinstance(kind, MediaBody)]


def answers() -> dict[str, str]:
    """Return the paragraph of the page that says what a route answers, by route."""
    text = PAGE.read_text("utf-8").partition(OBJECTS)[0]
    parts = re.findall(r"^### `(.+?)`\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    found = {name: re.search(r"^Answers.*?(?=\n\n|\n*\Z)", part, re.MULTILINE | re.DOTALL) for name, part in parts}
    return {name: answer[0] for name, answer in found.items() if answer}


def page() -> str:
    """Return the page as it has to be."""
    return PAGE.read_text("utf-8").partition("## Routes\n")[0] + sections()


def _last(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _drawn(rows: list[Row]) -> str:
    """Return rows as a table, without the last column if that is empty."""
    columns = COLUMNS if any(row[-1] for row in rows) else COLUMNS[:-1]
    lines = [tuple(columns), ("---",) * len(columns), *(row[: len(columns)] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)


def _meaning(schema: dict[str, Any]) -> str:
    said = [each["description"] for each in (schema, *schema.get("anyOf", ())) if "description" in each]
    return said[0].replace("|", "\\|") if said else ""


def _words(schema: dict[str, Any]) -> str:
    said = " ".join(schema.get("description", "").split("\n\n")[0].split())
    return f"{said}\n\n" if said else ""
