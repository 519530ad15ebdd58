"""Memory over the API: documents as files, changed upon what was seen, by the operator, who also approves it."""

from typing import Any
from urllib.parse import urlencode

import pytest

from daycare.api.strict_http import HEAD_MAX_BYTES
from daycare.base.documents import Attribution, digest
from daycare.base.limits import DOCUMENT_MAX_BYTES
from daycare.base.messages import Origin
from daycare.base.path import Kind
from daycare.features.memory.documents.rows import DocumentRows
from daycare.store.records import User
from tests.api.conftest import ANN, Api
from tests.chance import sliced
from tests.memory import hostile
from tests.memory.house import below

DOCUMENT = "/v1/memory/document"


async def put(api: Api, path: str, text: str, base: str = "", **query: Any) -> Any:
    wish = {"text": text, "base_hash": base, "reason": "because"}
    return await api.call("PUT", DOCUMENT, wish, path=path, **query)


async def get(api: Api, path: str, **query: Any) -> Any:
    return await api.call("GET", DOCUMENT, path=path, **query)


async def test_a_document_is_written_read_and_listed(api: Api) -> None:
    done = await put(api, "knowledge/garden.md", "Tomatoes.")
    assert done["version"]["version"] == 1
    assert done["version"]["by"] == {
        "origin": "person",
        "author": "direct:ann",
        "approver": "direct:ann",
        "reason": "because",
    }
    assert done["total"] == {"documents": 1, "bytes": 9, "warning": ""}
    found = await get(api, "knowledge/garden.md")
    assert (found["text"], found["layer"], found["hash"]) == ("Tomatoes.", "agent", digest("Tomatoes."))
    listed = await api.call("GET", "/v1/memory")
    assert listed["agent"] == ANN, "before the first word her agent comes into being"
    assert [each["path"] for each in listed["documents"]] == ["AGENTS.md", "knowledge/garden.md", "tools.json"]
    listed = await api.call("GET", "/v1/memory", prefix="knowledge")
    assert [each["path"] for each in listed["documents"]] == ["knowledge/garden.md"]


async def test_a_write_upon_what_was_not_seen_is_refused_with_the_hash_it_has(api: Api) -> None:
    await put(api, "SOUL.md", "one")
    error = await api.refused(
        409, "DOCUMENT_CHANGED", "PUT", DOCUMENT, {"text": "two", "base_hash": ""}, path="SOUL.md"
    )
    assert digest("one") in error["message"]
    await put(api, "SOUL.md", "two", digest("one"))
    error = await api.refused(409, "DOCUMENT_CHANGED", "DELETE", DOCUMENT, path="SOUL.md", base_hash=digest("one"))
    gone = await api.call("DELETE", DOCUMENT, path="SOUL.md", base_hash=digest("two"), reason="old")
    assert (gone["version"], gone["hash"], gone["by"]["reason"]) == (3, "", "old")
    await api.refused(404, "DOCUMENT_MISSING", "GET", DOCUMENT, path="SOUL.md")


async def test_history_versions_diff_and_undo(api: Api) -> None:
    await put(api, "SOUL.md", "one\n")
    await put(api, "SOUL.md", "two\n", digest("one\n"))
    versions = (await api.call("GET", "/v1/memory/history", path="SOUL.md"))["versions"]
    assert [(each["version"], each["size"]) for each in versions] == [(2, 4), (1, 4)]
    assert "text" not in versions[0]
    page = await api.call("GET", "/v1/memory/history", path="SOUL.md", before=2, limit=1)
    assert [each["version"] for each in page["versions"]] == [1]
    assert (await get(api, "SOUL.md", version=1))["text"] == "one\n"
    assert "-one\n+two\n" in (await api.call("GET", "/v1/memory/diff", path="SOUL.md"))["diff"]
    assert (await api.call("GET", "/v1/memory/diff", path="SOUL.md", old=0, new=1))["diff"].startswith("--- /dev/null")
    await api.refused(409, "DOCUMENT_CHANGED", "POST", "/v1/memory/undo", {"version": 1}, path="SOUL.md")
    undone = await api.call("POST", "/v1/memory/undo", {"version": 2}, path="SOUL.md")
    assert (undone["version"], (await get(api, "SOUL.md"))["text"]) == (3, "one\n")
    assert undone["by"]["reason"] == "undone"


async def test_explain_and_search(api: Api) -> None:
    await put(api, "shared/SOUL.md", "Kind to cats.")
    layers = (await api.call("GET", "/v1/memory/explain", path="SOUL.md"))["layers"]
    assert [(each["layer"], each["wins"]) for each in layers] == [("agent", False), ("user", True), ("global", False)]
    [found] = (await api.call("GET", "/v1/memory/search", query="cat"))["found"]
    assert (found["path"], found["passage"]) == ("SOUL.md", "Kind to cats.")


async def test_another_agents_documents_are_asked_for_by_its_path(api: Api) -> None:
    await api.call("POST", "/v1/agents", {"path": "/ann/agent/scribe"}, status=201)
    await api.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
    await put(api, "SOUL.md", "the scribe's", agent="/ann/agent/scribe")
    assert (await get(api, "SOUL.md", agent="/ann/agent/scribe"))["text"] == "the scribe's"
    await api.refused(404, "DOCUMENT_MISSING", "GET", DOCUMENT, path="SOUL.md")
    await api.refused(404, "AGENT_UNKNOWN", "GET", DOCUMENT, path="SOUL.md", agent="/ben/direct")
    await api.refused(400, "PATH_INVALID", "GET", DOCUMENT, path="SOUL.md", agent="../ben")


async def test_what_people_keep_who_were_let_in_is_theirs_alone(api: Api) -> None:
    directory = api.services.directory
    bob = await directory.create(directory.parse("/ann/subuser/bob"), origin=Origin.PERSON)
    helper = await directory.spawn(bob, Kind.SUB, origin=Origin.AGENT)
    await api.memory.documents.write(bob, "MEMORY.md", "Bob's", Attribution(origin=Origin.PERSON, author="x:bob"))
    for agent in (bob, helper):
        for method, route, query, wish in ROUTES:
            await api.refused(403, "OTHER_USER", method, route, wish, path="MEMORY.md", agent=agent.path, **query)
        await api.refused(403, "OTHER_USER", "GET", "/v1/memory", agent=agent.path)
        await api.refused(403, "OTHER_USER", "GET", "/v1/memory/search", agent=agent.path, query="bob")
    assert (await api.call("POST", "/v1/memory/export"))["written"] == []


async def test_files_are_exported_and_imported(api: Api) -> None:
    folder = api.socket.parent / "memory"
    await put(api, "SOUL.md", "one")
    done = await api.call("POST", "/v1/memory/export")
    assert (done["folder"], done["written"]) == (str(folder), ["agents/ann.direct/SOUL.md"])
    (folder / "agents/ann.direct/SOUL.md").write_text("mine")
    assert (await api.call("POST", "/v1/memory/import"))["imported"] == ["agents/ann.direct/SOUL.md"]
    assert (await get(api, "SOUL.md"))["text"] == "mine"
    await put(api, "SOUL.md", "the store's", digest("mine"))
    (folder / "agents/ann.direct/SOUL.md").write_text("mine again")
    [conflict] = (await api.call("POST", "/v1/memory/import"))["conflicts"]
    assert conflict["file"] == "agents/ann.direct/SOUL.md" and "+mine again" in conflict["diff"]
    assert below(folder) == {
        "agents/ann.direct/SOUL.md": "mine again",
        "agents/ann.direct/SOUL.store.md": "the store's",
    }


async def test_bounds_are_those_of_documents(api: Api) -> None:
    await put(api, "SOUL.md", "x" * DOCUMENT_MAX_BYTES)
    for text, code in (("x" * (DOCUMENT_MAX_BYTES + 1), "DOCUMENT_TOO_LARGE"), ("a\x00", "DOCUMENT_TEXT")):
        await api.refused(400, code, "PUT", DOCUMENT, {"text": text, "base_hash": ""}, path="STYLE.md")
    await api.refused(400, "BODY_INVALID", "PUT", DOCUMENT, {"text": "x"}, path="STYLE.md")
    await api.refused(400, "BODY_INVALID", "PUT", DOCUMENT, {"text": "x", "base_hash": "abc"}, path="STYLE.md")
    await api.refused(400, "QUERY_INVALID", "GET", "/v1/memory/search", query="x", limit=1_000)


ROUTES: list[tuple[str, str, dict[str, Any], Any]] = [
    ("GET", DOCUMENT, {}, None),
    ("GET", DOCUMENT, {"version": 1}, None),
    ("PUT", DOCUMENT, {}, {"text": "x", "base_hash": ""}),
    ("DELETE", DOCUMENT, {"base_hash": ""}, None),
    ("GET", "/v1/memory/history", {}, None),
    ("GET", "/v1/memory/diff", {}, None),
    ("GET", "/v1/memory/explain", {}, None),
    ("POST", "/v1/memory/undo", {}, {}),
    ("POST", "/v1/memory/move", {}, {"to": "SOUL.md", "base_hash": ""}),
]


@pytest.mark.parametrize(("method", "route", "query", "body"), ROUTES)
async def test_no_hostile_path_leads_anywhere(api: Api, method: str, route: str, query: Any, body: Any) -> None:
    await put(api, "SOUL.md", "one")
    for path in sliced(hostile.PATHS, 5):
        await invalid(api, method, route, body, {"path": path, **query})
    assert await api.store.of(DocumentRows).owners() == [("agent", (await agent(api)).id)]
    assert (await get(api, "SOUL.md"))["version"] == 1


async def invalid(api: Api, method: str, route: str, body: Any, query: dict[str, Any]) -> None:
    """See a path refused: by what it is, or by the length of the request line before anybody looks at it."""
    wire = {name: str(each).encode(errors="replace").decode() for name, each in query.items()}  # no half of a pair
    if len(urlencode(wire)) > HEAD_MAX_BYTES - 1_000:
        assert (await api.client.request(method, route, json=body, params=wire)).status_code == 431
    else:
        await api.refused(400, "MEMORY_PATH_INVALID", method, route, body, **wire)


async def test_no_hostile_folder_is_listed(api: Api) -> None:
    for path in hostile.PATHS:
        if path not in hostile.FOLDERS:
            await invalid(api, "GET", "/v1/memory", None, {"prefix": path})


async def test_views_are_written_under_no_spelling(api: Api) -> None:
    for path in hostile.VIEWS:
        code = "DOCUMENT_READ_ONLY" if path in ("AGENTS.md", "tools.json") else "MEMORY_PATH_INVALID"
        await api.refused(400, code, "PUT", DOCUMENT, {"text": "x", "base_hash": ""}, path=path)
        await api.refused(400, code, "DELETE", DOCUMENT, path=path, base_hash="")
        await api.refused(400, code, "POST", "/v1/memory/undo", {}, path=path)
    assert await api.store.of(DocumentRows).owners() == []


async def agent(api: Api) -> Any:
    return await api.services.directory.at(ANN)


async def test_a_document_gets_another_path_and_its_words_keep_their_origin(api: Api) -> None:
    await put(api, "SOUL.md", "hers")  # her agent comes into being
    read = Attribution(origin=Origin.FORWARD, author=ANN, provenance=("web:https://example.org",))
    await api.memory.documents.write(await agent(api), "knowledge/garden.md", "Tomatoes.", read)
    old, move = "knowledge/garden.md", {"to": "knowledge/balcony.md", "base_hash": digest("Tomatoes.")}
    for code, wrong in (
        ("DOCUMENT_CHANGED", {"base_hash": digest("seen")}),
        ("DOCUMENT_CHANGED", {"to": "SOUL.md"}),
    ):
        await api.refused(409, code, "POST", "/v1/memory/move", move | wrong, path=old)
    await api.refused(400, "DOCUMENT_PATH", "POST", "/v1/memory/move", move | {"to": old}, path=old)
    assert (await get(api, old))["text"] == "Tomatoes.", "neither half of it was done"
    moved = await api.call("POST", "/v1/memory/move", move, path=old)
    assert moved["by"]["origin"] == "forward", "nobody's words become a person's by being moved"
    assert moved["by"]["provenance"] == ["web:https://example.org"]
    assert moved["by"]["reason"] == f"moved from {old}"
    assert (await get(api, "knowledge/balcony.md"))["text"] == "Tomatoes."
    await api.refused(404, "DOCUMENT_MISSING", "GET", DOCUMENT, path=old)
    await api.call("POST", "/v1/memory/undo", {}, path=old)
    assert (await get(api, old))["text"] == "Tomatoes.", "its versions are where they were"
