"""Several nodes on one PostgreSQL: turns a second of one and of three, waking across nodes, and a million agents.

Real daemons, and a real server that does not bring its log to the disk: on one machine all of them share its
processors, so three nodes can only show what sharing costs. `--only` chooses parts.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, redirect_stdout
from pathlib import Path
from typing import Any, Final

import trio

from daycare.base.clock import SystemClock
from daycare.base.messages import Envelope, Origin
from daycare.base.path import Kind
from daycare.features import open_store, rows
from daycare.settings import NodeSection
from daycare.store.moving.whole import copy_from_file
from daycare.store.records import Commit, NewAgent, User
from daycare.store.share import SHARDS, DividedShare
from daycare.store.sqlite.rows import indexes_of
from daycare.store.sqlite.store import Store
from daycare.store.vault import open_vault
from daycare.testing.daemon_process import client_of
from tests.nodes.cluster import LEASE_S, Cluster, Node
from tests.nodes.server import Server

from . import crowd
from .measure import median, percentile, rounded, say, scratch

_PARTS: Final = ("rate", "wake", "million")
_NAMES: Final = ("a", "b", "c")
_SETTLE_S: Final = 120.0
_TOGETHER: Final = 16  # senders


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--messages", type=int, default=1_000, help="messages per round, for the rate")
    parser.add_argument("--wakes", type=int, default=300, help="messages that wake an agent of the other node")
    parser.add_argument("--agents", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=_PARTS)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the parts and return their figures."""
    found: dict[str, Any] = {}
    if "rate" in args.only:
        found |= trio.run(_rates, args)
    if "wake" in args.only:
        with scratch(args.dir) as folder, redirect_stdout(sys.stderr):  # nodes in this process log
            found |= trio.run(_wakes, folder, args.wakes)
    if "million" in args.only:
        with scratch(args.dir) as folder:
            file = folder / "crowd.db"
            say(f"building a database of {args.agents} agents")
            crowd.build(file, args.agents, busy=20)
            found |= trio.run(_million, file, args.agents)
    return found


# -- the rate ----------------------------------------------------------------------------------------------------------


async def _rates(args: argparse.Namespace) -> dict[str, Any]:
    rates: dict[int, list[float]] = {1: [], 3: []}
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery, "", 0, "")
        try:
            await _join(cluster, _NAMES[:1])
            users = [f"u{number}" for number in range(48)]
            async with client_of(cluster.nodes[0].home.socket) as client:
                for user in users:
                    (await client.post("/v1/users", json={"id": user, "name": user})).raise_for_status()
                    (await client.post("/v1/agents", json={"path": f"/{user}/agent/x"})).raise_for_status()
            rates[1] = await _rounds(cluster, users, args)
            await _join(cluster, _NAMES[1:])
            rates[3] = await _rounds(cluster, users, args)
        finally:
            await _end(cluster)
        nursery.cancel_scope.cancel()
    one, three = median(rates[1]), median(rates[3])
    assert one and three
    return {
        "one_node_turns_s": rounded(one),
        "three_nodes_turns_s": rounded(three),
        "three_vs_one": rounded(three / one),
    }


async def _rounds(cluster: Cluster, users: Sequence[str], args: argparse.Namespace) -> list[float]:
    found = []
    for number in range(args.rounds + 1):
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for sender in range(_TOGETHER):
                nursery.start_soon(_send, cluster.nodes[sender % len(cluster.nodes)], users, sender, number, args)
        if number:  # the first is to warm up
            found.append(args.messages / (time.perf_counter() - began))
            say(f"{len(cluster.nodes)} nodes, round {number}: {found[-1]:.1f} turns a second")
    return found


async def _send(node: Node, users: Sequence[str], sender: int, number: int, args: argparse.Namespace) -> None:
    async with client_of(node.home.socket) as client:
        for message in range(sender, args.messages, _TOGETHER):
            user, name = users[message % len(users)], f"r{len(users)}-{node.name}-{number}-{message}"
            body = {
                "path": f"/{user}/agent/x",
                "user": user,
                "text": f"m s{sender} {message}",
                "key": name,
                "wait_s": 60,
            }
            answer = await client.post("/v1/messages", json=body, timeout=90)
            answer.raise_for_status()


# -- waking ------------------------------------------------------------------------------------------------------------


async def _wakes(folder: Path, wakes: int) -> dict[str, Any]:
    server = Server()
    try:
        async with AsyncExitStack() as opened:
            vault, stores = open_vault(folder / "key"), []
            for name in _NAMES[:2]:
                node = NodeSection(name=name, lease_s=30.0), vault, ""
                store = await opened.enter_async_context(open_store(server.address(), node=node))
                store.share.work(lambda suspects: None, _nothing)
                stores.append(store)
            a, b = stores
            with trio.fail_after(_SETTLE_S):
                while not all(0 < len(_share(store).shards) < SHARDS for store in stores):
                    await trio.sleep(0.05)
            user = next(f"u{number}" for number in range(SHARDS) if b.share.owns(f"u{number}"))
            took = await _woken(a, b, user, wakes)
    finally:
        server.stop()
    return {"wake_p50_ms": percentile(took, 50), "wake_p99_ms": percentile(took, 99)}


async def _woken(a: Store, b: Store, user: str, wakes: int) -> list[float]:
    """Return the milliseconds from when one node has committed a message until the other has its row."""
    await a.people.add(User(id=user, name=user))
    path = f"/{user}/agent/x"
    await a.agents.create(
        NewAgent(id=f"{user:x>24}", path=path, kind=Kind.AGENT, role=None, user=user, origin=Origin.PERSON)
    )
    heard: dict[int, float] = {}
    something = trio.Event()

    def hear(commit: Commit) -> None:
        heard.update((row.seq, time.perf_counter()) for row in commit.posted)
        something.set()

    b.subscribe(hear)
    took, rng = [], random.Random(1)
    for number in range(wakes):
        letter = Envelope(
            to=path, user=user, origin=Origin.PERSON, sender=f"direct:{user}", key=str(number), text="hi", trace="t"
        )
        receipt = await a.inbox.post(letter)
        committed = time.perf_counter()
        with trio.fail_after(_SETTLE_S):
            while receipt.seq not in heard:
                something = trio.Event()
                await something.wait()
        took.append(max(0.0, 1000 * (heard[receipt.seq] - committed)))
        await trio.sleep(rng.uniform(0.005, 0.05))
    return took


def _share(store: Store) -> DividedShare:
    assert isinstance(store.share, DividedShare)
    return store.share


async def _nothing() -> None:
    pass


# -- a million agents --------------------------------------------------------------------------------------------------


async def _million(file: Path, agents: int) -> dict[str, Any]:
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery, "", 0, "")
        try:
            db = cluster.server.connect()
            db.simple("DROP SCHEMA daycare CASCADE")
            db.close()
            began, indexes = time.perf_counter(), indexes_of(rows())
            await trio.to_thread.run_sync(
                lambda: copy_from_file(file, cluster.server.address(), "crowd", indexes, SystemClock().now_ms())
            )
            copied_s = time.perf_counter() - began
            say(f"{agents} agents copied to the server in {copied_s:.0f} s")
            starts = await _join(cluster, _NAMES)
            again, takeovers = [], []
            for node in cluster.nodes:
                await node.kill()
                began = time.perf_counter()
                await _settled(cluster)
                takeovers.append(time.perf_counter() - began)
                say(f"the agents of {node.name} taken over after {takeovers[-1]:.1f} s")
                again += await _start(cluster, node)
        finally:
            await _end(cluster)
        nursery.cancel_scope.cancel()
    return {
        "agents": agents,
        "copied_s": rounded(copied_s),
        "first_start_s": rounded(starts[0]),
        "join_s": rounded(median(starts[1:] + again)),
        "takeover_s": rounded(max(takeovers)),
        "takeover_after_lease_s": rounded(max(takeovers) - LEASE_S),
    }


# -- nodes -------------------------------------------------------------------------------------------------------------


async def _join(cluster: Cluster, names: Sequence[str]) -> list[float]:
    """Start nodes one after another; return the seconds until each has answered, for the first time."""
    took: list[float] = []
    for name in names:
        node = await cluster.add(name)
        took += await _ready(node)
        await _settled(cluster)
        say(f"node {name} answers after {took[-1]:.1f} s")
    return took


async def _start(cluster: Cluster, node: Node) -> list[float]:
    node.start()
    took = await _ready(node)
    await _settled(cluster)
    return took


async def _ready(node: Node) -> list[float]:
    assert node.process is not None
    took = await node.process.ready(_SETTLE_S)
    assert took is not None
    return [took]


async def _settled(cluster: Cluster) -> None:
    assert await cluster.settled({node.name for node in cluster.up}, _SETTLE_S), "not all shards have an owner"


async def _end(cluster: Cluster) -> None:
    with trio.CancelScope(shield=True):
        for node in cluster.up:
            await node.kill()
        cluster.server.stop()
        cluster.remove()
