"""What the commands about memory ask the daemon for: one document's passages, stats, making vectors anew."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio

from daycare.api.app import build
from daycare.base.documents import Attribution
from daycare.base.memory_settings import DocumentsSection, MemorySection
from daycare.base.messages import Origin
from daycare.config import Config, ProviderSection
from daycare.plugin import Plugin, ProviderConfig, vectors
from daycare.settings import with_offline
from daycare.testing.daemon import TestDaemon, open_daemon

BY = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")
TEXT = "# Memory\n\n## Garden\n\nThe beans grow well.\n\n## House\n\nThe boiler is loud.\n"


class Lengths:
    """An embedder that looks at how long a text is."""

    name = "fake"
    needs_key = False

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        await trio.lowlevel.checkpoint()
        return vectors([[1.0, float(len(text))] for text in texts])


@asynccontextmanager
async def client_of(tmp: Path, embedder: str) -> AsyncIterator[tuple[TestDaemon, httpx.AsyncClient]]:
    def create(config: ProviderConfig) -> Lengths:
        return Lengths()

    kinds = {} if embedder == "none" else {"fake": ProviderSection(kind="fake")}
    config = Config(memory=MemorySection(embedder=embedder), providers=with_offline(kinds))
    async with open_daemon(tmp, config=config, plugins=[Plugin(name="fake", embedders={"fake": create})]) as house:
        await house.talk("I saw a bird.")
        me = await house.daemon.directory.at("/ann/direct")
        await house.daemon.memory.documents.write(me, "MEMORY.md", TEXT, BY)
        await house.daemon.memory.documents.write(me, "knowledge/heating.md", "A boiler makes heat.", BY)
        await trio.sleep(30)
        transport = httpx.ASGITransport(build(house.daemon.services))
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
            yield house, client


async def call(client: httpx.AsyncClient, method: str, route: str, body: object = None, **query: Any) -> Any:
    content = b"" if body is None else msgspec.json.encode(body)
    answer = await client.request(method, route, content=content, params=query)
    return answer.json() | {"status": answer.status_code}


async def test_one_document_is_searched_and_made_anew(tmp_path: Path, autojump_clock: object) -> None:
    async with client_of(tmp_path, "fake/small") as (_, client):
        found = await call(client, "GET", "/v1/memories/search", query="boiler", path="MEMORY.md")
        assert [each["text"] for each in found["found"]][:1] == ["The boiler is loud."]
        assert all(each["tier"] == "chunk" and "heat" not in each["text"] for each in found["found"])
        done = await call(client, "POST", "/v1/memories/process", {"path": "MEMORY.md"})
        assert done == {"path": "MEMORY.md", "version": 1, "chunks": 2, "embedded": 2, "status": 200}
        none = await call(client, "POST", "/v1/memories/process", {"path": "knowledge/none.md"})
        assert none["status"] == 404
        assert "woken" in await call(client, "POST", "/v1/memories/process")


async def test_stats_tell_of_the_model_and_how_far_it_is(tmp_path: Path, autojump_clock: object) -> None:
    async with client_of(tmp_path, "fake/small") as (_, client):
        stats = await call(client, "GET", "/v1/memories/stats")
        shown = stats["embedder"]
        assert (shown["embedder"], shown["model"], shown["dimensions"]) == ("fake/small", "fake/small", 2)
        total = sum(stats["all"][tier] for tier in ("logs", "facts", "entities", "chunks"))
        assert shown["embedded"] == shown["memories"] == total == 5
        again = await call(client, "POST", "/v1/memories/reembed")
        assert again["embedder"]["embedded"] == 0
        await trio.sleep(30)
        assert (await call(client, "GET", "/v1/memories/stats"))["embedder"]["embedded"] == 5


async def test_without_an_embedder_there_are_no_vectors_to_make(tmp_path: Path, autojump_clock: object) -> None:
    async with client_of(tmp_path, "none") as (_, client):
        refused = await call(client, "POST", "/v1/memories/reembed")
        assert refused["status"] == 404 and "EMBEDDER_NONE" in str(refused)
        done = await call(client, "POST", "/v1/memories/process", {"path": "MEMORY.md"})
        assert (done["chunks"], done["embedded"]) == (2, 0)


@pytest.mark.parametrize(("text", "identity"), [('{"identity": "whole"}', "whole"), ('{"identity": 3}', 3)])
def test_identity_is_set_to_whole_or_a_number(text: str, identity: object) -> None:
    assert msgspec.json.decode(text, type=DocumentsSection).identity == identity


@pytest.mark.parametrize(
    "text", ['{"identity": "top"}', '{"identity": 0}', '{"chat_top": -1}', '{"min_similarity": 2}']
)
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=DocumentsSection)
