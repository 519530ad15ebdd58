"""Vectors of texts for programs, made by the embedder that memory uses."""

import base64
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.api.app import build
from daycare.base.errors import UnavailableError
from daycare.base.memory_settings import MemorySection
from daycare.base.messages import Origin
from daycare.config import Config, ProviderSection
from daycare.features.memory.embed.service import EMBED_BATCH, EMBED_TEXT_MAX_CHARS
from daycare.features.openai.embeddings import EMBEDDINGS_MAX
from daycare.plugin import Plugin, ProviderConfig, vectors
from daycare.settings import with_offline
from daycare.store.records import User
from daycare.testing.daemon import open_daemon
from tests.programs.conftest import Programs, token

ROUTE = "/openai/v1/embeddings"


class Lengths:
    """An embedder whose vectors say how long a text is."""

    name = "fake"
    needs_key = False

    def __init__(self) -> None:
        self.down = False
        self.batches: list[int] = []

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        await trio.lowlevel.checkpoint()
        if self.down:
            raise UnavailableError("PROVIDER_UNREACHABLE", "embedding with fake: nobody is there")
        self.batches.append(len(texts))
        return vectors([[3.0, 4.0 * len(text)] for text in texts])


@asynccontextmanager
async def embedding(tmp: Path, embedder: str = "fake/small") -> AsyncIterator[tuple[Programs, Lengths]]:
    fake = Lengths()

    def create(config: ProviderConfig) -> Lengths:
        return fake

    kinds = {} if embedder == "none" else {"fake": ProviderSection(kind="fake")}
    config = Config(memory=MemorySection(embedder=embedder), providers=with_offline(kinds))
    async with open_daemon(tmp, config=config, plugins=[Plugin(name="fake", embedders={"fake": create})]) as house:
        yield Programs(house, build(house.daemon.services)), fake


async def test_texts_become_vectors_of_the_length_one_in_both_formats(tmp_path: Path, autojump_clock: object) -> None:
    async with embedding(tmp_path) as (programs, _):
        for model in ("daycare", "fake/small"):
            answer = await programs.call("POST", ROUTE, {"model": model, "input": ["a", "bbbb"]}, by=token("ann"))
            found = answer.json()
            assert (answer.status_code, found["object"], found["model"]) == (200, "list", model)
            assert [each["index"] for each in found["data"]] == [0, 1]
            assert found["data"][0]["embedding"] == pytest.approx([0.6, 0.8])
            assert found["usage"]["total_tokens"] == found["usage"]["prompt_tokens"] > 0
        packed = {"model": "daycare", "input": "a", "encoding_format": "base64", "dimensions": 2}
        [row] = (await programs.call("POST", ROUTE, packed)).json()["data"]
        assert struct.unpack("<2f", base64.b64decode(row["embedding"])) == pytest.approx([0.6, 0.8])


async def test_many_texts_are_asked_for_in_parts(tmp_path: Path, autojump_clock: object) -> None:
    async with embedding(tmp_path) as (programs, fake):
        texts = [f"text {number}" for number in range(EMBEDDINGS_MAX)]
        answer = await programs.call("POST", ROUTE, {"model": "daycare", "input": texts})
        assert len(answer.json()["data"]) == EMBEDDINGS_MAX and max(fake.batches) == EMBED_BATCH


@pytest.mark.parametrize(
    ("wish", "status", "says"),
    [
        ({"input": []}, 400, "1 to 512 fit"),
        ({"input": ["a"] * (EMBEDDINGS_MAX + 1)}, 400, "1 to 512 fit"),
        ({"input": ["a", " "]}, 400, "text 1 is empty"),
        ({"input": "a" * (EMBED_TEXT_MAX_CHARS + 1)}, 400, "split it"),
        ({"input": [1, 2, 3]}, 400, "$.input[0]"),
        ({"input": "a", "dimensions": 256}, 400, "have 2"),
        ({"input": "a", "encoding_format": "hex"}, 400, "encoding_format"),
        ({"input": "a", "model": "text-embedding-3-small"}, 404, "fake/small"),
    ],
)
async def test_what_cannot_be_embedded_says_why(
    tmp_path: Path, autojump_clock: object, wish: Any, status: int, says: str
) -> None:
    async with embedding(tmp_path) as (programs, _):
        answer = await programs.call("POST", ROUTE, {"model": "daycare"} | wish)
        error = answer.json()["error"]
        assert (answer.status_code, error["type"]) == (status, "invalid_request_error")
        assert says in error["message"]


async def test_vectors_count_against_the_budget_of_who_asks(tmp_path: Path, autojump_clock: object) -> None:
    async with embedding(tmp_path) as (programs, fake):
        await programs.house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)), Origin.PERSON)
        limit = await programs.call("PUT", "/v1/budget", {"path": "/bob", "limits": {"day.calls": 1}})
        assert limit.status_code == 200, limit.text
        wish = {"model": "daycare", "input": "four words of mine"}
        assert (await programs.call("POST", ROUTE, wish, by=token("bob"))).status_code == 200
        refused = await programs.call("POST", ROUTE, wish, by=token("bob"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "BUDGET_EXHAUSTED"), refused.text
        assert (await programs.call("POST", ROUTE, wish)).status_code == 200, "others are not kept from it"
        assert fake.batches == [1, 1], "what is refused is not made"
        spent = (await programs.call("GET", "/v1/spend?path=/bob")).json()
        assert [(each["model"], each["calls"]) for each in spent["spent"]] == [("small", 1)], spent


async def test_without_an_embedder_the_setting_is_named(tmp_path: Path, autojump_clock: object) -> None:
    async with embedding(tmp_path, "none") as (programs, _):
        answer = await programs.call("POST", ROUTE, {"model": "daycare", "input": "a"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "EMBEDDER_NONE")
        assert "embedder =" in answer.json()["error"]["message"]


async def test_an_embedder_that_is_away_is_a_servers_error(tmp_path: Path, autojump_clock: object) -> None:
    async with embedding(tmp_path) as (programs, fake):
        fake.down = True
        answer = await programs.call("POST", ROUTE, {"model": "daycare", "input": "a"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "server_error")
