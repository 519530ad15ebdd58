"""The documents that an agent is shown: who it is, whom it talks to, what it keeps in mind; and how they were."""

from typing import Any, Final

from daycare.base.documents import DAILY
from daycare.base.limits import DOCUMENT_MAX_BYTES, DOCUMENTS_TOTAL_BYTES
from daycare.features.dashboard.rendering import diff_lines
from daycare.features.dashboard.visit import PageRefusedError, Visit
from daycare.rules.document_paths import IDENTITY, MEMORY, SOUL, STYLE, USER

VERSIONS_SHOWN: Final = 20  # on a page
DIFF_MAX_CHARS: Final = 20_000  # of what one version changed, as it is shown
_ABSENT: Final = ("DOCUMENT_MISSING", "DOCUMENT_SHARED")  # not there, or not for whoever looks
_FIRST: Final = (IDENTITY, SOUL, STYLE, USER, MEMORY)


async def shown(visit: Visit, path: str) -> dict[str, Any]:
    """Return documents, and the one that `?document` names with its versions; of the version `?version` what it did."""
    listed = await visit.get_if_seen("/v1/memory", agent=path)
    if listed is None:
        return {"documents": None}
    there = {each["path"].rpartition("/")[2] for each in listed["documents"]}
    values: dict[str, Any] = {
        "documents": listed,
        "missing": [each for each in _FIRST if each not in there],
        "limit": DOCUMENT_MAX_BYTES,
        "total_limit": DOCUMENTS_TOTAL_BYTES,
    }
    if name := visit.query.get("document", "").strip():
        values |= await _one(visit, path, name)
    return values


async def _one(visit: Visit, agent: str, name: str) -> dict[str, Any]:
    document = await _if_there(visit, "/v1/memory/document", agent=agent, path=name)
    layers = (await visit.get("/v1/memory/explain", agent=agent, path=name))["layers"]
    wins = next((each for each in layers if each["wins"]), None)
    values: dict[str, Any] = {
        "document": document or {"path": name, "layer": "", "text": "", "hash": "", "version": 0, "updated_at": 0},
        "layers": layers,
        "written": wins["path"] if wins else name,  # a change without a layer would concern the first one
        "own": layers[0]["path"] if wins and not layers[0]["wins"] else "",
        "grows": name.removeprefix("agent/").startswith(DAILY),
    }
    before, version = visit.query.get("before", ""), visit.query.get("version", "")
    if layers:
        asked = {"before": before if before.isdecimal() else None, "limit": VERSIONS_SHOWN}
        found = await _if_there(visit, "/v1/memory/history", agent=agent, path=name, **asked)
        values["versions"] = found["versions"] if found else []
    if layers and version.isdecimal():
        values["old"] = await visit.get("/v1/memory/document", agent=agent, path=name, version=version)
        diff = (await visit.get("/v1/memory/diff", agent=agent, path=name, new=version))["diff"]
        values["changed"] = {"lines": diff_lines(diff[:DIFF_MAX_CHARS]), "whole": len(diff) <= DIFF_MAX_CHARS}
    return values


async def _if_there(visit: Visit, route: str, **query: Any) -> Any:
    try:
        return await visit.get(route, **query)
    except PageRefusedError as error:
        if error.error["code"] not in _ABSENT:
            raise
        return None
