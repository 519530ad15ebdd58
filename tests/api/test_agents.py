"""Agents: list, create, show, change, unpark, end."""

from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.messages import Origin
from daycare.store.records import NewTimer
from tests.api.conftest import ANN, Api, open_api
from tests.store.samples import letter

SCRIBE = "/ann/agent/scribe"


async def create(api: Api, path: str = SCRIBE, **config: object) -> None:
    await api.call("POST", "/v1/agents", {"path": path, "config": config}, status=201)


async def test_created_agent_is_listed_and_answers(api: Api) -> None:
    made = await api.call("POST", "/v1/agents", {"path": SCRIBE, "config": {"policy": "followup"}}, status=201)
    assert (made["path"], made["kind"], made["user"], made["origin"]) == (SCRIBE, "agent", "ann", Origin.PERSON)
    assert (made["config"], made["live"]) == ({"policy": "followup"}, "asleep")
    assert (await api.call("GET", "/v1/agents"))["agents"] == [made]
    assert (await api.ask("hello", path=SCRIBE))["result"] == "echo: hello"


async def test_only_an_agent_of_a_known_user_can_be_created_and_only_once(api: Api) -> None:
    await create(api)
    await api.refused(409, "AGENT_EXISTS", "POST", "/v1/agents", {"path": SCRIBE})
    await api.refused(400, "AGENT_KIND", "POST", "/v1/agents", {"path": "/ann/direct"})
    await api.refused(400, "PATH_INVALID", "POST", "/v1/agents", {"path": "/ann/agnet/x"})
    await api.refused(404, "USER_UNKNOWN", "POST", "/v1/agents", {"path": "/zoe/agent/x"})
    wrong = await api.refused(
        400, "BODY_INVALID", "POST", "/v1/agents", {"path": "/ann/agent/x", "config": {"moed": 1}}
    )
    assert "moed" in wrong["message"]


async def test_list_is_filtered_and_paged(api: Api) -> None:
    await api.call("POST", "/v1/users", {"id": "ben"}, status=201)
    for path in ("/ann/agent/a", "/ann/agent/b", "/ben/agent/a"):
        await create(api, path)
    await api.ask("hello")

    async def paths(**query: Any) -> list[str]:
        return [agent["path"] for agent in (await api.call("GET", "/v1/agents", **query))["agents"]]

    assert await paths() == ["/ann/agent/a", "/ann/agent/b", ANN, "/ben/agent/a"]
    assert await paths(user="ben") == ["/ben/agent/a"]
    assert await paths(kind="connector") == [ANN]
    assert await paths(after="/ann/agent/a", limit=2) == ["/ann/agent/b", ANN]
    await api.call("DELETE", "/v1/agent", path="/ann/agent/a")
    assert "/ann/agent/a" not in await paths()
    assert "/ann/agent/a" in await paths(include_dead="true")
    await api.refused(400, "QUERY_INVALID", "GET", "/v1/agents", kind="robot")
    await api.refused(400, "QUERY_INVALID", "GET", "/v1/agents", include_dead="maybe")


async def test_listed_agent_shows_where_it_is_in_its_life(api: Api) -> None:
    async def live() -> str:
        return str((await api.call("GET", "/v1/agents"))["agents"][0]["live"])

    await create(api)
    assert await live() == "asleep"
    api.echo.hold = trio.Event()
    await api.call("POST", "/v1/messages", {"text": "a", "path": SCRIBE}, status=202)
    await api.echo.started.wait()
    assert await live() == "in_turn"
    api.echo.hold.set()
    await api.ask("b", path=SCRIBE)
    assert await live() == "idle"


async def test_page_of_an_agent_shows_conversation_queue_and_timers(api: Api) -> None:
    await api.ask("hello")
    agent = await api.services.directory.at(ANN)
    await api.store.timers.add(
        NewTimer(agent_id=agent.id, key="t", due_at=4_000_000_000_000, envelope=letter("t", ANN, user="ann"))
    )
    api.echo.hold = trio.Event()
    await api.call("POST", "/v1/messages", {"text": "later"}, status=202)
    page = await api.call("GET", "/v1/agent", path=ANN)
    assert (page["agent"]["id"], page["session"]) == (agent.id, 1)
    assert [message["parts"][0]["text"] for message in page["history"]] == ["hello", "echo: hello"]
    assert [row["envelope"]["text"] for row in page["waiting"]] == ["later"]
    assert [timer["due_at"] for timer in page["timers"]] == [4_000_000_000_000]


async def test_change_touches_only_the_given_settings(api: Api) -> None:
    await create(api, policy="followup", model="offline/echo")
    changed = await api.call("PATCH", "/v1/agent", {"model": "offline/rules", "tools": ["remind"]}, path=SCRIBE)
    assert changed["config"] == {"policy": "followup", "model": "offline/rules", "tools": ["remind"]}
    reset = await api.call("PATCH", "/v1/agent", {"model": None, "tools": None}, path=SCRIBE)
    assert reset["config"] == {"policy": "followup"}
    assert (await api.call("GET", "/v1/agent", path=SCRIBE))["agent"]["config"] == {"policy": "followup"}


@pytest.mark.parametrize("change", [{"polcy": "steer"}, {"polcy": None}, {"policy": "sometimes"}, {"model": 3}, [1]])
async def test_wrong_change_changes_nothing(api: Api, change: object) -> None:
    await create(api, policy="followup")
    error = await api.refused(400, "BODY_INVALID", "PATCH", "/v1/agent", change, path=SCRIBE)
    if isinstance(change, dict):
        assert next(iter(change)) in error["message"]
    assert (await api.call("GET", "/v1/agent", path=SCRIBE))["agent"]["config"] == {"policy": "followup"}
    await api.refused(404, "AGENT_UNKNOWN", "PATCH", "/v1/agent", {}, path="/ann/agent/nobody")


async def test_concurrent_changes_are_all_kept(api: Api) -> None:
    await create(api)
    fields = ("name", "description", "system_prompt")

    async def change(field: str) -> None:
        await api.call("PATCH", "/v1/agent", {field: field}, path=SCRIBE)

    async with trio.open_nursery() as nursery:
        for field in fields:
            nursery.start_soon(change, field)
    assert (await api.call("GET", "/v1/agent", path=SCRIBE))["agent"]["config"] == {field: field for field in fields}


async def test_unparked_agent_answers_what_waited(api: Api) -> None:
    await create(api)
    agent = await api.services.directory.at(SCRIBE)
    await api.store.agents.set_state(agent.id, "parked", "too many crashes")
    sent = await api.call("POST", "/v1/messages", {"text": "a", "path": SCRIBE, "key": "k", "wait_s": 0.1}, status=202)
    assert sent["state"] == "waiting"
    assert (await api.call("GET", "/v1/agent", path=SCRIBE))["agent"]["live"] == "parked"
    woken = await api.call("POST", "/v1/agent/unpark", path=SCRIBE)
    assert (woken["state"], woken["reason"] or "") == ("living", "")
    assert (await api.ask("a", path=SCRIBE, key="k"))["result"] == "echo: a"
    assert (await api.call("POST", "/v1/agent/unpark", path=SCRIBE))["state"] == "living"
    await api.refused(404, "AGENT_UNKNOWN", "POST", "/v1/agent/unpark", path="/ann/agent/nobody")


async def test_agent_is_unparked_also_where_no_turns_are_taken(tmp_path: Path) -> None:
    async with open_api(tmp_path, mode="tool", work=False) as api:
        await create(api)
        agent = await api.services.directory.at(SCRIBE)
        await api.call("POST", "/v1/messages", {"text": "a", "path": SCRIBE}, status=202)
        await api.store.agents.set_state(agent.id, "parked", "too many crashes")
        assert (await api.call("POST", "/v1/agent/unpark", path=SCRIBE))["state"] == "living"


async def test_sleeping_agent_ends_at_once_and_its_path_is_free(api: Api) -> None:
    await create(api)
    first = await api.call("DELETE", "/v1/agent", path=SCRIBE)
    assert (first["state"], first["live"]) == ("dead", "dead")
    await api.refused(404, "AGENT_UNKNOWN", "DELETE", "/v1/agent", path=SCRIBE)
    second = await api.call("POST", "/v1/agents", {"path": SCRIBE}, status=201)
    assert (second["incarnation"], second["id"] != first["id"]) == (2, True)


async def test_agent_in_a_turn_is_stopped_and_ends(api: Api) -> None:
    api.echo.hold = trio.Event()
    await api.call("POST", "/v1/messages", {"text": "long"}, status=202)
    await api.echo.started.wait()
    await api.call("POST", "/v1/messages", {"text": "behind it"}, status=202)
    ended = await api.call("DELETE", "/v1/agent", path=ANN)
    assert ended["state"] == "dead"
    (dead,) = (await api.call("GET", "/v1/dead"))["dead"]
    assert (dead["code"], "behind it" in dead["body"]) == ("AGENT_DEAD", True)


async def test_a_budget_among_the_settings_is_refused_with_where_it_is_set(api: Api) -> None:
    await create(api)
    error = await api.refused(400, "BODY_INVALID", "PATCH", "/v1/agent", {"budget": {"tokens": 5}}, path=SCRIBE)
    assert error["hint"] == f"daycare budget set {SCRIBE} --day 5usd"
