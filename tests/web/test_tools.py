"""The tools in a whole daemon: off until they are switched on, and what they bring is from outside."""

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from daycare.base.messages import Origin, ToolResult
from daycare.config import Config, ModelsSection, PluginsSection, ProviderSection
from daycare.rules.taint import sources_in
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import call, say
from tests.formats.samples import pdf
from tests.web.test_fetching import http, says, served


def settled(folder: Path, **web: object) -> AbstractAsyncContextManager[TestDaemon]:
    """Return a daemon with these settings of `[plugins.web]`."""
    models = ModelsSection(default="scripted/model"), {"scripted": ProviderSection(kind="scripted")}
    settings = {"web": web} if web else {}
    config = Config(models=models[0], providers=models[1], plugins=PluginsSection(settings=settings))
    return open_daemon(folder, config=config)


def result_of(house: TestDaemon) -> str:
    """Return what the tool answered."""
    part = house.model.history[-1].messages[-1].parts[0]
    assert isinstance(part, ToolResult)
    return part.text


async def test_an_agent_reads_a_page_and_what_it_says_counts_as_words_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        served(says(http(b"<title>Tea</title><p>Steep it.")), monkeypatch) as (root, _),
        settled(tmp_path, fetch=True, private=["127.0.0.1"]) as house,
    ):
        house.model.enqueue(call(("web_fetch", {"url": root})), say("it steeps"))
        assert await house.talk("read it") == "it steeps"
        assert result_of(house) == f"{root}\n\n# Tea\n\nSteep it."
        read = sources_in(house.model.history[-1].messages, house.daemon.catalogue.own)
        assert [source.told for source in read.read if source.origin is Origin.FILE] == [
            "an earlier result of web_fetch"
        ]


async def test_an_agent_reads_a_document_of_the_web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        served(says(http(pdf(["Steep it."]), "application/pdf")), monkeypatch) as (root, _),
        settled(tmp_path, fetch=True, private=["127.0.0.1"]) as house,
    ):
        house.model.enqueue(call(("web_fetch", {"url": root})), say("it steeps"))
        assert await house.talk("read it") == "it steeps"
        assert result_of(house) == f"{root}\n\n[page 1 of 1]\nSteep it."


async def test_without_settings_there_is_no_tool(tmp_path: Path) -> None:
    async with settled(tmp_path) as house:
        house.model.enqueue(call(("web_fetch", {"url": "https://example.org"})), say("no"))
        assert await house.talk("read it") == "no"
        assert "there is no tool called web_fetch" in result_of(house)


async def test_a_search_is_asked_of_the_owners_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [{"url": "https://tea.example/", "title": "Tea", "content": "All about\n tea", "score": 1.0}]
    body = json.dumps({"query": "tea", "results": found}).encode()
    async with served(says(http(body, "application/json")), monkeypatch) as (root, asked):
        async with settled(tmp_path, search=root) as house:
            house.model.enqueue(call(("web_search", {"query": "green tea"})), say("found"))
            assert await house.talk("look") == "found"
            text = result_of(house)
            assert text == "- Tea\n  https://tea.example/\n  All about tea"
        assert asked == ["/search?q=green+tea&format=json"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (http(b"no", status="403 Forbidden"), "formats: [html, json]"),
        (http(b"<html>"), "is no JSON of results"),
        (http(b"", status="500 Broken"), "answered 500"),
    ],
)
async def test_an_engine_that_does_not_answer_says_why(
    answer: bytes, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(says(answer), monkeypatch) as (root, _), settled(tmp_path, search=root) as house:
        house.model.enqueue(call(("web_search", {"query": "x"})), say("no"))
        with trio.fail_after(20):
            assert await house.talk("look") == "no"
        assert told in result_of(house)
