"""Two daemons on one database: each is a door to the agents of both."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import trio

from daycare.features.hooks import schemes
from daycare.features.hooks.records import HookScheme
from daycare.store.share import chosen, shard_of
from daycare.testing.daemon_process import client_of
from tests.nodes.cluster import Cluster, Node

DEADLINE_S = 60.0
OWNER = "me"


@asynccontextmanager
async def two_nodes() -> AsyncGenerator[tuple[Node, Node, str]]:
    """Start two nodes; yield them with a user whose agent works on the second."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery, "", 0, "")
        try:
            for name in ("a", "b"):
                node = await cluster.add(name)
                assert node.process is not None
                await node.process.ready(DEADLINE_S)
            assert await cluster.settled({"a", "b"}, DEADLINE_S)
            a, b = cluster.nodes
            user = next(user for user in map("u{}".format, range(100)) if chosen(shard_of(user), ("a", "b")) == "b")
            async with client_of(a.home.socket) as client:
                (await client.post("/v1/users", json={"id": user})).raise_for_status()
                (await client.post("/v1/agents", json={"path": f"/{user}/agent/x"})).raise_for_status()
            yield a, b, user
        finally:
            with trio.CancelScope(shield=True):
                for node in cluster.up:
                    await node.kill()
                cluster.server.stop()
            cluster.remove()
            nursery.cancel_scope.cancel()


async def said(client: httpx.AsyncClient, user: str, text: str, **more: Any) -> dict[str, Any]:
    body = {"path": f"/{user}/agent/x", "user": user, "text": text, **more}
    answer = await client.post("/v1/messages", json=body)
    assert answer.status_code in (200, 202), answer.text
    found: dict[str, Any] = answer.json()
    return found


async def watch(node: Node, seen: list[dict[str, Any]], begun: trio.Event) -> None:
    """Collect what a node shows of turns until it ends."""
    async with client_of(node.home.socket) as client:
        wish = {"types": "turn.delta,turn.finished"}
        async with client.stream("GET", "/v1/events", params=wish, timeout=DEADLINE_S) as stream:
            begun.set()
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    seen.append(json.loads(line.removeprefix("data: ")))


async def test_an_answer_is_waited_for_and_watched_on_a_node_that_does_not_work_for_its_user() -> None:
    seen: list[dict[str, Any]] = []
    with trio.fail_after(3 * DEADLINE_S):
        async with two_nodes() as (a, _, user), trio.open_nursery() as nursery:
            begun = trio.Event()
            nursery.start_soon(watch, a, seen, begun)
            await begun.wait()
            async with client_of(a.home.socket) as client:
                answered = await said(client, user, "m s1 1", wait_s=30)
            assert answered["result"] == "ack m s1 1"
            while len(seen) < 2:
                await trio.sleep(0.02)
            await a.stop()
    assert [(each["event"], each["path"]) for each in seen if "path" in each] == [
        ("turn.delta", f"/{user}/agent/x"),
        ("turn.finished", f"/{user}/agent/x"),
    ]


async def test_a_program_is_streamed_an_answer_that_another_node_makes() -> None:
    with trio.fail_after(3 * DEADLINE_S):
        async with two_nodes() as (a, b, _):
            door = a if chosen(shard_of(OWNER), ("a", "b")) == "b" else b
            async with client_of(door.home.socket) as client:
                body = {"model": "daycare", "stream": True, "messages": [{"role": "user", "content": "m s1 2"}]}
                streamed = await client.post("/openai/v1/chat/completions", json=body, timeout=30)
            assert streamed.status_code == 200, streamed.text
            words = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: {")]
            assert "".join(choice["delta"].get("content", "") for each in words for choice in each["choices"]) == (
                "ack m s1 2"
            )


async def test_a_webhook_that_one_node_knows_is_taken_by_each_and_a_delivery_once() -> None:
    with trio.fail_after(3 * DEADLINE_S):
        async with two_nodes() as (a, b, user), client_of(a.home.socket) as client, client_of(b.home.socket) as there:
            agent = f"/{user}/agent/x"
            made = await client.post("/v1/hooks", json={"name": "ci", "scheme": HookScheme.STANDARD, "to": agent})
            body, secret = b'{"ref": "main"}', made.json()["secret"]

            async def deliver(node: httpx.AsyncClient, delivery: str) -> tuple[int, str]:
                headers = schemes.signed(
                    HookScheme.STANDARD, secret, body, delivery=delivery, event="push", now_s=time.time()
                )
                answer = await node.post("/v1/hooks/ci", content=body, headers=headers)
                return answer.status_code, answer.json()["state"]

            assert await deliver(there, "d1") == (202, "accepted")
            assert await deliver(client, "d1") == (200, "repeated")
            assert await deliver(client, "d2") == (202, "accepted")
            heard: list[str] = []
            while len(heard) < 2:
                history = (await client.get("/v1/agent", params={"path": agent})).json()["history"]
                heard = [each["parts"][0]["text"] for each in history if each.get("origin") == "webhook"]
            assert len(heard) == 2, heard
            for node in (client, there):
                known = (await node.get("/v1/hook", params={"name": "ci"})).json()
                assert (known["accepted"], known["repeated"]) == (2, 1), known


async def test_an_agent_is_ended_in_its_lane_whichever_node_is_asked() -> None:
    with trio.fail_after(3 * DEADLINE_S):
        async with two_nodes() as (a, b, user), client_of(a.home.socket) as client:
            await said(client, user, "m s1 1", wait_s=30)
            path = {"path": f"/{user}/agent/x"}
            async with client_of(b.home.socket) as there:
                lives = {"", "nowhere"}
                while lives != {"idle"}:  # also where it does not work it is seen that it is awake
                    answers = [await each.get("/v1/agent", params=path) for each in (client, there)]
                    lives = {answer.json()["agent"]["live"] for answer in answers}
            ended = await client.delete("/v1/agent", params=path)
            assert (ended.status_code, ended.json()["state"]) == (200, "dead"), ended.text
