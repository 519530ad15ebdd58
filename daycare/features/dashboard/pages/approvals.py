"""Approvals: what waits for a decision, with what it would change, what is suspicious, and what led to it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from daycare.base.limits import APPROVALS_SHOWN_PAGE
from daycare.features.dashboard.rendering import diff_lines
from daycare.features.dashboard.visit import Visit
from daycare.rules.shown import shown

LISTED_MAX_CHARS: Final = 4_000  # of a change in a list; a longer one is decided where all of it is shown
CONTEXT_CHARS: Final = 160  # around what is suspicious
MARKED_MAX_CHARS: Final = 1_000  # of one suspicious passage


class MarkedPassage(NamedTuple):
    """A piece of a text. `numbers` are of the findings that it is in, `ends` of those that end with it."""

    text: str
    severity: str = ""
    numbers: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


async def listed(visit: Visit) -> dict[str, Any]:
    """Return a page of requests with their texts, decided ones with `?all`; the one that `?no` names with all of it."""
    no, before, everything = visit.query.get("no", ""), visit.query.get("before", ""), "all" in visit.query
    values: dict[str, Any] = {
        "title": "Approvals",
        "all": everything,
        "granted": (),
        "calls": (),
        "next": None,
        "one": "",
    }
    if no.isdecimal():
        one = await visit.get("/v1/approvals/{no}", no=no)
        return values | {"approvals": [_readable(one, len(one["diff"]))], "one": no}
    found = await visit.get(
        "/v1/approvals",
        all=everything,
        texts=True,
        before=before if before.isdecimal() else None,
        limit=APPROVALS_SHOWN_PAGE,
    )
    return {**values, **found, "approvals": [_readable(each, LISTED_MAX_CHARS) for each in found["approvals"]]}


def passages(text: str, findings: Sequence[dict[str, Any]]) -> list[MarkedPassage]:
    """Return a text in pieces, so that what is suspicious stands out; of what lies between, only what is near it."""
    placed = [(n, it, it.get("start", 0), it["end"]) for n, it in enumerate(findings, 1) if it.get("end")]
    if not placed:
        return []
    edges = sorted({0, len(text), *(min(at, len(text)) for _, _, start, end in placed for at in (start, end))})
    found = []
    for start, end in pairwise(edges):
        over = [(n, it["severity"]) for n, it, first, last in placed if first <= start and end <= last]
        ends = tuple(n for n, *_, last in placed if min(last, len(text)) == end)
        severity = min((each for _, each in over), default="")  # danger, before warning
        piece = _cut(text[start:end], MARKED_MAX_CHARS if over else 2 * CONTEXT_CHARS)
        found.append(MarkedPassage(shown(piece), severity, tuple(n for n, _ in over), ends))
    return found


def _readable(it: dict[str, Any], most: int) -> dict[str, Any]:
    diff, changes = it["diff"], it["verb"] not in ("call", "answer") or it["where"]  # others change no text
    lines = diff_lines(shown(diff[:most])) if changes else ()
    marked = passages(it["text"], it["findings"])
    return it | {"lines": lines, "said": shown(it["text"][:most]), "whole": len(diff) <= most, "marked": marked}


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"
