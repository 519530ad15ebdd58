"""Identity and the memory of chats, as one text each."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from daycare.api.app import build
from daycare.base.documents import Attribution, digest
from daycare.base.limits import DOCUMENT_MAX_BYTES
from daycare.base.memory_settings import MemorySection
from daycare.base.messages import Origin
from daycare.config import Config, ProviderSection
from daycare.features.memory.documents.service import NEW_MEMORY
from daycare.plugin import Plugin, vectors
from daycare.settings import with_offline
from daycare.testing.daemon import open_daemon
from tests.panels.conftest import Panels

CHAT = "/v1/chats/{id}/memory"
EVERY = ["/v1/identity", CHAT, "/v1/projects/garden/memory", "/v1/workspaces/notes/memory"]
SEARCHED = [route for route in EVERY if route != "/v1/identity"]


def is_now(text: str) -> bool:
    assert text.endswith("Z")
    return abs((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()) < 60


@pytest.mark.parametrize("route", EVERY)
async def test_a_memory_begins_when_it_is_first_read_and_is_one_ever_after(panels: Panels, route: str) -> None:
    found = await panels.call("GET", route)
    assert list(found) == ["memory"] and list(found["memory"]) == ["id", "content", "updatedAt"]
    assert found["memory"]["content"] and is_now(found["memory"]["updatedAt"])
    assert await panels.call("GET", route) == found
    again = await panels.call("PUT", route, {"content": "# Other\n"})
    assert (again["memory"]["id"], again["memory"]["content"]) == (found["memory"]["id"], "# Other\n")
    assert await panels.call("GET", route) == again


async def test_the_first_identity_is_what_prompts_said_before_and_counts_there(panels: Panels) -> None:
    await panels.house.talk("hello", path="/ann/agent/scribe")
    found = await panels.call("GET", "/v1/identity")
    assert found["memory"]["content"] == "Your name is daycare.\nYour tone is friendly.\n"
    await panels.house.talk("hello", path="/ann/agent/scribe")
    before, after = (request.system.partition("</agents>")[0] for request in panels.house.model.history[-2:])
    assert before == after and "Your tone is friendly." in after
    assert panels.house.events("identity.held") == [], "a person stands behind it"


async def test_what_is_written_stands_in_the_next_prompt(panels: Panels) -> None:
    await panels.call("PUT", "/v1/identity", {"content": "You are the lighthouse keeper."})
    await panels.call("PUT", CHAT, {"content": "Ann is allergic to nuts."})
    await panels.house.talk("hello", path="/ann/agent/scribe")
    system = panels.house.model.history[-1].system
    assert system.index("lighthouse keeper") < system.index("allergic to nuts")


@pytest.mark.parametrize("route", EVERY)
async def test_after_a_deletion_it_begins_again(panels: Panels, route: str) -> None:
    first = await panels.call("GET", route)
    await panels.call("PUT", route, {"content": "old words"})
    path = {"/v1/identity": "IDENTITY.md", CHAT: "MEMORY.md", EVERY[2]: "project/garden/memory.md"}
    gone = await panels.ask("DELETE", f"/v1/agents/{{id}}/memory/{path.get(route, 'workspace/notes.md')}")
    assert gone.status_code == 204
    assert (await panels.call("GET", route))["memory"]["content"] == first["memory"]["content"]


async def test_each_chat_has_a_memory_of_its_own_by_id_or_by_path(panels: Panels) -> None:
    await panels.house.agent("/ann/agent/other")
    await panels.call("PUT", CHAT, {"content": "of the scribe"})
    assert (await panels.call("GET", "/v1/chats/ann.agent.scribe/memory"))["memory"]["content"] == "of the scribe"
    assert (await panels.call("GET", "/v1/chats/ann.agent.other/memory"))["memory"]["content"] == NEW_MEMORY


@pytest.mark.parametrize(
    "name", ["nobody0000000000000000000", "ann.agent.none", "a..b", "%2E%2E", "ann.agent.Scribe", "x" * 300]
)
async def test_a_chat_that_is_not_there_is_answered_as_such(panels: Panels, name: str) -> None:
    await panels.refused(404, "AGENT_UNKNOWN", "GET", f"/v1/chats/{name}/memory")


async def test_a_dead_agent_has_no_chat_and_the_next_at_its_path_has_another(panels: Panels) -> None:
    await panels.call("PUT", CHAT, {"content": "of the first"})
    await panels.call("DELETE", "/v1/agent", path="/ann/agent/scribe")
    await panels.refused(404, "AGENT_UNKNOWN", "GET", CHAT)
    await panels.house.agent("/ann/agent/scribe")
    assert (await panels.call("GET", "/v1/chats/ann.agent.scribe/memory"))["memory"]["content"] == NEW_MEMORY


@pytest.mark.parametrize("route", EVERY)
async def test_what_was_changed_meanwhile_is_not_overwritten(panels: Panels, route: str) -> None:
    seen = await panels.ask("GET", route)
    tag = seen.headers["etag"]
    assert tag == f'"{digest(seen.json()["memory"]["content"])}"'
    await panels.call("PUT", route, {"content": "theirs"}, headers={"If-Match": tag})
    mine = {"content": "mine"}
    await panels.refused(409, "DOCUMENT_CHANGED", "PUT", route, mine, headers={"If-Match": tag})
    await panels.refused(409, "DOCUMENT_CHANGED", "PUT", route, mine | {"base_hash": tag.strip('"')})
    assert (await panels.call("GET", route))["memory"]["content"] == "theirs"
    written = await panels.ask("PUT", route, mine | {"base_hash": digest("theirs")})
    assert (written.status_code, written.headers["etag"]) == (200, f'"{digest("mine")}"')


@pytest.mark.parametrize("route", EVERY)
async def test_a_memory_has_100_kib_and_a_body_256(panels: Panels, route: str) -> None:
    await panels.call("PUT", route, {"content": "x" * DOCUMENT_MAX_BYTES})
    await panels.refused(400, "DOCUMENT_TOO_LARGE", "PUT", route, {"content": "x" * (DOCUMENT_MAX_BYTES + 1)})
    await panels.refused(413, "BODY_TOO_LARGE", "PUT", route, {"content": "x" * (256 * 1024)})
    assert len((await panels.call("GET", route))["memory"]["content"]) == DOCUMENT_MAX_BYTES


@pytest.mark.parametrize("body", [{}, {"content": 1}, {"content": "x", "more": 1}, {"content": "x", "base_hash": "y"}])
async def test_a_body_that_is_none_is_refused_by_its_field(panels: Panels, body: Any) -> None:
    await panels.refused(400, "BODY_INVALID", "PUT", CHAT, body)
    await panels.refused(400, "BODY_INVALID", "PUT", "/v1/identity", body)


@pytest.mark.parametrize("route", EVERY)
async def test_processing_makes_the_passages_anew(panels: Panels, route: str) -> None:
    await panels.call("PUT", route, {"content": "# Garden\n\nThe beans grow well.\n\n# House\n\nThe boiler is loud.\n"})
    done = await panels.call("POST", f"{route}/process")
    assert (done["chunks"], done["embedded"]) == (2, 0), "without an embedder it does no harm"
    assert done["memory"] == (await panels.call("GET", route))["memory"]


@pytest.mark.parametrize("route", SEARCHED)
async def test_a_search_finds_passages_of_this_memory_alone(panels: Panels, route: str) -> None:
    me = await panels.house.daemon.directory.at("/ann/agent/scribe")
    by = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")
    await panels.house.daemon.memory.documents.write(me, "knowledge/boiler.md", "A boiler makes heat.", by)
    await panels.call("PUT", route, {"content": "# Garden\n\nThe beans grow well.\n\n# House\n\nThe boiler is loud.\n"})
    found = await panels.call("POST", f"{route}/search", {"query": "why is the boiler loud?"})
    [best] = found["results"]
    assert (best["content"], best["headings"], best["similarity"]) == ("The boiler is loud.", ["House"], None)
    assert best["score"] > 0
    assert (await panels.call("POST", f"{route}/search", {"query": "zebra"}))["results"] == []
    await panels.refused(400, "BODY_INVALID", "POST", f"{route}/search", {"query": ""})
    await panels.refused(400, "BODY_INVALID", "POST", f"{route}/search", {"query": "x", "limit": 0})


async def test_names_of_projects_are_names_and_lead_nowhere_else(panels: Panels) -> None:
    for name in ("%2E%2E", "Garden", "a.b", "x" * 65, "%00"):
        await panels.refused(400, "MEMORY_PATH_INVALID", "GET", f"/v1/projects/{name}/memory")


class Topics:
    """An embedder that knows two topics."""

    name = "fake"
    needs_key = False

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        await trio.lowlevel.checkpoint()
        topics = (("beans", "vegetables"), ("loud", "noise"))
        return vectors([[0.01 + any(word in text for word in words) for words in topics] for text in texts])


async def test_a_search_finds_by_meaning_where_there_are_vectors(tmp_path: Path, autojump_clock: object) -> None:
    config = Config(
        memory=MemorySection(embedder="fake/small"), providers=with_offline({"fake": ProviderSection(kind="fake")})
    )
    plugin = Plugin(name="fake", embedders={"fake": lambda config: Topics()})
    async with open_daemon(tmp_path, config=config, plugins=[plugin]) as house:
        await house.talk("hello")
        transport = httpx.ASGITransport(build(house.daemon.services))
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
            route = "/v1/chats/ann.direct/memory"
            text = "# Garden\n\nThe beans grow well.\n\n# House\n\nThe boiler is loud.\n"
            await client.put(route, json={"content": text})
            done = (await client.post(f"{route}/process")).json()
            assert (done["chunks"], done["embedded"]) == (2, 2)
            found = (await client.post(f"{route}/search", json={"query": "what makes noise?"})).json()["results"]
            assert [(each["content"], each["similarity"] > 0.9) for each in found] == [("The boiler is loud.", True)]
