"""Values that somebody may put where another is expected, and documents of JSON with some of them changed."""

import json
from random import Random
from typing import Any, Final

from tests.hostile import texts

JUNK: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, 1e-308, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30,
    "", " ", "0", "-1", "null", "true", "1e9", "../..", "\x00", "🦞" * 50, [], {}, [[]], [None], {"a": {}}, {"": ""},
    ["*"], "2026-13-99", "2026-02-30T00:00:00Z", "telegram", "/a/b/sub/0", "agent:main", "x" * 10_000, "/ann/direct",
    253_402_300_800_000, 8_640_000_000_000_001, -62_135_596_800_001, "9999-12-31T23:59:59+23:59", "0001-01-01",
)  # fmt: skip
ENDLESS: Final[tuple[Any, ...]] = (float("inf"), float("-inf"), float("nan"))


def value(rng: Random, depth: int = 0) -> Any:
    """Return any value that JSON knows, and none that its text cannot carry."""
    choice = rng.random()
    if choice < 0.45 or depth > 3:
        return rng.choice(JUNK)
    if choice < 0.75:
        return texts.short(rng)
    if choice < 0.78:
        return nested(rng)
    if choice < 0.9:
        return [value(rng, depth + 1) for _ in range(rng.choice((0, 1, 3, 50)))]
    return {texts.short(rng)[:100]: value(rng, depth + 1) for _ in range(rng.choice((0, 1, 3, 20)))}


def nested(rng: Random) -> Any:
    """Return a value deep within others."""
    found: Any = 1
    for _ in range(rng.choice((3, 30, 90))):
        found = [found] if rng.random() < 0.5 else {"a": found}
    return found


def mutated(rng: Random, found: Any, share: float = 0.15) -> Any:
    """Return a value with some of its parts replaced, left out, doubled or added to."""
    if rng.random() < share:
        return value(rng)
    if isinstance(found, dict):
        changed = {name: mutated(rng, each, share) for name, each in found.items() if rng.random() > share / 4}
        if rng.random() < share:
            changed[rng.choice((texts.short(rng)[:100], "type", "id", "user", "path"))] = value(rng)
        return changed
    if isinstance(found, list | tuple):
        changed_list = [mutated(rng, each, share) for each in found]
        return changed_list * rng.choice((1, 1, 1, 1, 1, 1, 2, 20)) if len(changed_list) < 50 else changed_list
    if isinstance(found, str) and rng.random() < share:
        return found + texts.short(rng)
    if isinstance(found, int) and not isinstance(found, bool) and rng.random() < share:
        return rng.choice((found + 1, -found, found * 1_000, found * 10**12, float(found), str(found)))
    return found


def body(rng: Random, found: Any) -> bytes:
    """Return the bytes of a document of JSON, sometimes not quite."""
    data = json.dumps(found, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    choice = rng.random()
    if choice < 0.8:
        return data
    if choice < 0.85:
        at = rng.randint(0, len(data))
        return data[:at]
    if choice < 0.9:
        at = rng.randint(0, len(data))
        return (
            data[:at]
            + rng.choice((b"\xff", b"\xc3", b"\x00", b"\xed\xa0\x80", b"\\ud800", b'"', b"}", b"{"))
            + data[at:]
        )
    if choice < 0.93:
        return b"[" * rng.choice((10, 1_000, 100_000))
    if choice < 0.95:
        return b'{"a":' * rng.choice((10, 1_000, 20_000))
    return rng.choice(
        (b"", b"null", b"[]", b"1e999", b"NaN", b"-", b"\xef\xbb\xbf{}", b"9" * 5_000, b'"\\u0000"', b"{}{}")
    )
