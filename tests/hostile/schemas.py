"""Values that fit a JSON Schema, filled with hostile words: for the arguments of tools and the bodies of requests."""

from random import Random
from typing import Any, Final

from tests.hostile import texts, values

CRON: Final = (
    "* * * * *", "0 7 * * 1-5", "*/15 * * * *", "@daily", "0 0 29 2 *", "0 0 31 2 *", "0 0 1 1 *", "59 23 L * *",
    "1-59/2 0-23 1,15 * MON#2", "*/0 * * * *", "60 * * * *", "* * * * * *", "* * * * 7", "0-0 0-0 1-1 1-1 0-0",
    "1,2,3,4,5,6,7,8,9 * * * *", "5/70 * * * *", "9-1 * * * *", "? ? ? ? ?", "@every 1s", "@reboot", "-1 * * * *",
)  # fmt: skip
TIMES: Final = (
    "2027-01-01T00:00", "2027-03-28T02:30", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "tomorrow at 9",
    "in 10 minutes", "2027-02-29", "18:30", "24:00", "10000-01-01", "1e9", "-1", "2027-W53-7", "every weekday at 7:30",
)  # fmt: skip
ZONES: Final = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Kiritimati",
    "Mars/Olympus",
    "../../etc/passwd",
    "",
)
PATHS: Final = (
    "/ann/direct", "/p1/direct", "/p2/agent/x", "/system/upkeep", "/p0/direct/sub/0", "/p0/cron/x", "/nobody/direct",
    "MEMORY.md", "SOUL.md", "knowledge/a.md", "daily/2027-01-01.md", "p1", "ann", "x", "news", "1", "*", "/p1",
)  # fmt: skip
NUMBERS: Final = (
    0,
    1,
    -1,
    2,
    60,
    600,
    3_600,
    10**6,
    10**9,
    10**12,
    2**53,
    2**63 - 1,
    2**63,
    -(2**63),
    10**18,
    0.5,
    1e-9,
    1e300,
)
_SPECIAL: Final[tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...]] = (
    (("cron", "expr", "schedule", "every"), CRON),
    (("at", "due", "when", "until", "since", "before", "after", "day", "time", "deadline"), TIMES),
    (("zone", "tz", "timezone"), ZONES),
    (("path", "to", "agent", "user", "name", "target", "document", "id", "job", "task"), PATHS),
)


def fitting(
    rng: Random, schema: dict[str, Any], name: str = "", root: dict[str, Any] | None = None, depth: int = 0
) -> Any:
    """Return a value that mostly fits a schema; `name` is its property's."""
    root = schema if root is None else root
    if "$ref" in schema:
        found = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return fitting(rng, found, name, root, depth + 1) if depth < 12 else None
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return fitting(rng, rng.choice(schema[several]), name, root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if kind == "object" or "properties" in schema:
        return _object(rng, schema, root, depth)
    if kind == "array":
        most = min(schema.get("maxItems", 4), 60)
        items = schema.get("items", {}) or {}
        many = rng.choice((0, 1, 1, 2, most))
        return [fitting(rng, items, name, root, depth + 1) for _ in range(many if depth < 8 else 0)]
    if kind in ("integer", "number"):
        return _number(rng, schema, kind)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    return _string(rng, name)


def _object(rng: Random, schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    required = schema.get("required", ())
    found = {
        name: fitting(rng, each, name, root, depth + 1)
        for name, each in schema.get("properties", {}).items()
        if depth < 8 and (name in required or rng.random() < 0.5)
    }
    if isinstance(schema.get("additionalProperties"), dict):
        for _ in range(rng.choice((0, 1, 3))):
            found[texts.short(rng)[:50]] = fitting(rng, schema["additionalProperties"], "", root, depth + 1)
    return found


def _number(rng: Random, schema: dict[str, Any], kind: str) -> Any:
    bounds = [schema[each] for each in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if each in schema]
    if bounds and rng.random() < 0.5:
        found = rng.choice(bounds) + rng.choice((0, 0, 1, -1))
    else:
        found = rng.choice(NUMBERS)
    return int(found) if kind == "integer" and abs(found) < 1e30 else found


def _string(rng: Random, name: str) -> Any:
    words = name.lower().replace("-", "_").split("_")
    for names, some in _SPECIAL:
        if any(word in names for word in words) and rng.random() < 0.7:
            return rng.choice(some) if rng.random() < 0.8 else rng.choice(some) + texts.short(rng)[:200]
    return texts.text(rng) if rng.random() < 0.3 else texts.short(rng)


def hostile(rng: Random, schema: dict[str, Any]) -> Any:
    """Return a value that fits a schema, or nearly does, or does not at all."""
    choice = rng.random()
    if choice < 0.55:
        return fitting(rng, schema)
    if choice < 0.95:
        return values.mutated(rng, fitting(rng, schema), rng.choice((0.05, 0.2, 0.5)))
    return values.value(rng)
