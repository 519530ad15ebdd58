"""Platforms that post to a webhook may do so to any node: the one that is connected answers, and once."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import trio

from daycare.base.roles import of_connector
from daycare.testing.daemon_process import client_of
from daycare_plugins.slack.events import signature
from daycare_plugins.slack.testing.server import SIGNING_SECRET, TOKEN, FakeWorkspace
from daycare_plugins.telegram.testing.server import FakeTelegram
from daycare_plugins.whatsapp_cloud.testing.server import FakeGraph
from tests.nodes.cluster import Cluster, Node
from tests.slack.houses import ANN as SLACK_ANN
from tests.telegram.test_webhook import SECRET_HEADER, update
from tests.whatsapp_cloud.houses import ANN as WHATSAPP_ANN
from tests.whatsapp_cloud.houses import free_port

DEADLINE_S: Final = 120.0
NAMES: Final = ("a", "b")
Post = Callable[[Node, str], Awaitable[int]]


@asynccontextmanager
async def nodes(section: Callable[[str], str]) -> AsyncGenerator[tuple[Cluster, httpx.AsyncClient]]:
    """Run two nodes."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery, "", 0, section)
        try:
            for name in NAMES:
                node = await cluster.add(name)
                assert node.process is not None
                await node.process.ready(DEADLINE_S)
            assert await cluster.settled(set(NAMES), DEADLINE_S)
            async with client_of(cluster.nodes[0].home.socket) as client:
                yield cluster, client
        finally:
            with trio.CancelScope(shield=True):
                for node in cluster.up:
                    await node.kill()
                cluster.server.stop()
            cluster.remove()
            nursery.cancel_scope.cancel()


async def known(client: httpx.AsyncClient, key: str, **secrets: str) -> None:
    """Link somebody, and store what the platform has given out."""
    (await client.post("/v1/users", json={"id": "ann"})).raise_for_status()
    (await client.post("/v1/users/ann/links", json={"key": key})).raise_for_status()
    for name, value in secrets.items():
        (await client.put(f"/v1/keys/{name.replace('__', '.')}", json={"value": value})).raise_for_status()


async def posted(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Post as a platform does; 0 where nobody listens."""
    async with httpx.AsyncClient(timeout=30) as client:
        try:
            return (await client.post(url, content=body, headers=headers)).status_code
        except httpx.TransportError:
            return 0


async def taken(post: Post, node: Node, text: str) -> None:
    """Post until it is taken, as platforms do."""
    while await post(node, text) != 200:
        await trio.sleep(0.5)


async def answered(texts: Callable[[], list[str]], *wanted: str) -> None:
    """Wait until each is answered; nothing is answered twice."""
    while not all(f"ack {text}" in "\n".join(texts()) for text in wanted):
        await trio.sleep(0.05)
    for text in wanted:
        assert "\n".join(texts()).count(f"ack {text}") == 1, texts()


async def connected(cluster: Cluster, connector: str) -> tuple[Node, Node]:
    """Return the node that is connected, and the other one."""
    name = await trio.to_thread.run_sync(cluster.owner_of, f"role:{of_connector(connector)}")
    here, there = sorted(cluster.nodes, key=lambda node: node.name != name)
    return here, there


async def test_telegram_may_post_to_a_node_that_is_not_connected_also_when_the_other_one_dies() -> None:
    ports = {name: free_port() for name in NAMES}
    url = f"http://127.0.0.1:{ports['a']}/hook"
    with trio.fail_after(2 * DEADLINE_S):
        async with FakeTelegram.serve() as telegram:

            def section(name: str) -> str:
                return (
                    f'[plugins.telegram]\nbase_url = "{telegram.base_url}"\n'
                    f'base_file_url = "{telegram.base_file_url}"\n'
                    f'webhook_url = "{url}"\nwebhook_listen = "127.0.0.1:{ports[name]}"\n'
                )

            async def post(node: Node, text: str) -> int:
                said[text] = said.get(text, len(said) + 1)
                headers = {SECRET_HEADER: str(telegram.webhook.get("secret_token", ""))}
                return await posted(f"http://127.0.0.1:{ports[node.name]}/hook", update(said[text], text), headers)

            said: dict[str, int] = {}
            async with nodes(section) as (cluster, client):
                await known(client, "telegram:5", telegram=telegram.token)
                telegram.person(5)
                here, there = await connected(cluster, "telegram")
                await taken(post, there, "m s1 1")
                await taken(post, here, "m s1 2")
                assert await post(there, "m s1 1") == 200, "a repeat"
                telegram.webhook["secret_token"], right = "x" * 43, telegram.webhook["secret_token"]
                assert await post(there, "m s1 3") == 401, "nobody else gets as far as the other node"
                telegram.webhook["secret_token"] = right
                await here.kill()
                assert await post(here, "m s1 3") == 0
                await taken(post, there, "m s1 3")
                texts = lambda: [message.text for message in telegram.sent()]  # noqa: E731
                await answered(texts, "m s1 1", "m s1 2", "m s1 3")


async def test_slack_may_post_to_a_node_that_is_not_connected() -> None:
    ports = {name: free_port() for name in NAMES}
    with trio.fail_after(2 * DEADLINE_S):
        async with FakeWorkspace.serve() as slack:
            slack.over_http = True
            slack.person(SLACK_ANN, "Ann")

            def section(name: str) -> str:
                return (
                    f'[plugins.slack]\nbase_url = "{slack.url}"\nevents_url = "https://bot.example/slack"\n'
                    f'listen = "127.0.0.1:{ports[name]}"\n'
                )

            async def post(node: Node, text: str) -> int:
                if text not in events:
                    slack.say(SLACK_ANN, text)
                    events[text] = json.dumps(slack.outbox[-1][1]).encode()
                stamp = str(round(slack.clock())).encode()
                headers = {
                    "X-Slack-Request-Timestamp": stamp.decode(),
                    "X-Slack-Signature": signature(stamp, events[text], SIGNING_SECRET).decode(),
                }
                return await posted(f"http://127.0.0.1:{ports[node.name]}/slack", events[text], headers)

            events: dict[str, bytes] = {}
            async with nodes(section) as (cluster, client):
                await known(client, f"slack:{SLACK_ANN}", slack=TOKEN, slack__signing_secret=SIGNING_SECRET)
                here, there = await connected(cluster, "slack")
                await taken(post, there, "m s1 1")
                await taken(post, here, "m s1 2")
                assert await post(there, "m s1 1") == 200, "a repeat"
                await answered(lambda: [each["text"] for each in slack.sent(SLACK_ANN)], "m s1 1", "m s1 2")


async def test_whatsapp_may_post_to_a_node_that_is_not_connected() -> None:
    ports = {name: free_port() for name in NAMES}
    with trio.fail_after(2 * DEADLINE_S):
        async with FakeGraph.serve() as graph:
            graph.person(WHATSAPP_ANN, "Ann")

            def section(name: str) -> str:
                return (
                    f'[plugins.whatsapp_cloud]\nphone_number_id = "{graph.number_id}"\nbase_url = "{graph.base_url}"\n'
                    f'listen = "127.0.0.1:{ports[name]}"\nconfirm_s = 1\n'
                )

            async with nodes(section) as (cluster, client):
                secrets: dict[str, Any] = {
                    "whatsapp_cloud": graph.token,
                    "whatsapp_cloud__app_secret": graph.app_secret,
                    "whatsapp_cloud__verify_token": graph.verify_token,
                }
                await known(client, f"whatsapp-cloud:{WHATSAPP_ANN}", **secrets)
                here, there = await connected(cluster, "whatsapp-cloud")
                for number, node in enumerate((there, here), 1):
                    graph.webhook_url = f"http://127.0.0.1:{ports[node.name]}/whatsapp"
                    graph.say(WHATSAPP_ANN, f"m s1 {number}")
                    await answered(lambda: [each.text for each in graph.sent(WHATSAPP_ANN)], f"m s1 {number}")
                assert urlsplit(graph.webhook_url).port == ports[here.name]
