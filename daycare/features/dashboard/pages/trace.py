"""Where is my message: what happened to one, as bars of time."""

from typing import Any, Final

from daycare.features.dashboard.visit import Visit

_WIDTH: Final = 1_000  # of the drawing, in its own units
_LEAST: Final = 4


async def found(visit: Visit) -> dict[str, Any]:
    """Return the story of the message that `?q` means, or the traces that it may mean."""
    asked = visit.query.get("q", "").strip()[:300]
    values: dict[str, Any] = {"title": "Where is my message?", "q": asked, "traces": [], "story": None}
    if asked:
        values["traces"] = (await visit.get("/v1/traces", query=asked))["traces"]
    if len(values["traces"]) == 1:
        story = await visit.get("/v1/trace/{id}/spans", id=values["traces"][0]["trace"])
        start = story["started_at"]
        all_ms = max(1, _end(story) - start)
        values |= {"story": story, "took_ms": (story["ended_at"] or story["now_ms"]) - start}
        values["bars"] = [_bar(span, start, all_ms, story["now_ms"]) for span in story["spans"]]
    return values


def _end(story: dict[str, Any]) -> int:
    """Return when the drawing ends. A reply may wait for days: then it ends a little after what has an end."""
    if story["ended_at"] is not None:
        return int(story["ended_at"])
    if any(span["end_ms"] is None and span["kind"] != "reply" for span in story["spans"]):
        return int(story["now_ms"])
    last = int(max(span["end_ms"] or span["start_ms"] for span in story["spans"]))
    return min(int(story["now_ms"]), last + (last - int(story["started_at"])) // 10 + 1)


def _bar(span: dict[str, Any], start_ms: int, all_ms: int, now_ms: int) -> dict[str, Any]:
    """Return a span with where its bar begins and how wide it is."""
    after = span["start_ms"] - start_ms
    took = (now_ms if span["end_ms"] is None else span["end_ms"]) - span["start_ms"]
    x = min(_WIDTH * after // all_ms, _WIDTH - _LEAST)
    return {
        **span,
        "after": after,
        "took": took,
        "x": x,
        "width": max(_LEAST, min(_WIDTH * took // all_ms, _WIDTH - x)),
    }
