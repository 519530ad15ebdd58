"""The skills that are there for an agent: which of them it follows, what they say, and what is suspicious in them."""

from typing import Any, Final

from daycare.features.dashboard.pages.approvals import passages
from daycare.features.dashboard.rendering import diff_lines
from daycare.features.dashboard.visit import PageRefusedError, Visit

TEXT_MAX_CHARS: Final = 100_000  # of a file on a page
_FIELDS: Final = ("skill", "place", "file")


async def listed(visit: Visit, path: str) -> dict[str, Any]:
    """Return skills, and the one that `?skill` names, with its file `?file`."""
    found = await visit.get_if_seen("/v1/skills", path=path)
    if found is None:
        return {"skills": None}
    name, place, file = (visit.query.get(field) or None for field in _FIELDS)
    values: dict[str, Any] = {"skills": found["skills"], "view": None, "refused": ""}
    if name:
        try:
            view = await visit.get("/v1/skill", path=path, name=name, place=place, file=file)
        except PageRefusedError as refused:
            return values | {"refused": refused.error["message"]}
        text = view["text"] or ""
        marked = passages(text, view["findings"].get(view["file"], ()))
        values["view"] = view | {
            "text": text[:TEXT_MAX_CHARS],
            "whole": len(text) <= TEXT_MAX_CHARS,
            "lines": diff_lines(view["diff"]),
            "marked": marked,
            "shows_all": "".join(each.text for each in marked) == text,
        }
    return values
