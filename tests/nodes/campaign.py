"""A campaign: nodes fail in every way while people write, and what is left is judged."""

import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

import httpx
import trio

from daycare.base.errors import StoreAwayError
from daycare.base.roles import of_connector
from daycare.testing.daemon_process import BrokenDaemonError, client_of
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.crash.ledger import Finding, Ledger
from tests.nodes import beacon, judge
from tests.nodes.backlog import Backlog
from tests.nodes.cluster import Cluster, Node
from tests.nodes.crowd import PAUSE_S, Crowd
from tests.nodes.messenger import SECTION, TelegramCrowd
from tests.nodes.wants import RULES, Wanting

EPISODES: Final = {
    "kill": 3,
    "revive": 3,
    "pause": 3,
    "cut": 2,
    "mute": 1,
    "deaf": 1,
    "break": 2,
    "answer": 3,
    "strand": 1,
    "server": 2,
    "failover": 2,
    "leave": 2,
    "join": 1,
    "upgrade": 2,
}
NAMES: Final = ("a", "b", "c")
CAMPAIGN_LEASE_S: Final = 4.0
SETTLE_S: Final = 60.0
GIVE_UP_S: Final = 900.0  # for what was asked for to be done; what then goes on is late
_LAST_S: Final = 1.5  # the last reminders are due within it
_CALM_S: Final = (0.3, 1.5)


class Campaign:
    """One cluster and its people."""

    def __init__(
        self,
        episodes: int,
        seed: int,
        *,
        senders: int = 12,
        mutant: str = "",
        skew_ms: int = 0,
        only: str = "",
        lease_s: float = CAMPAIGN_LEASE_S,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.rng = random.Random(f"nodes/{seed}")
        self._episodes, self._seed, self._senders = episodes, seed, senders
        self._mutant, self._skew_ms = mutant, skew_ms
        self._kinds = {only: 1} if only else EPISODES
        self._lease_s, self._pause_s = lease_s, pause_s
        self._findings: list[Finding] = []
        self._spent_s: dict[str, list[float]] = {}  # by kind of episode
        self.ledger = Ledger()
        self.counts: Counter[str] = Counter()
        self.takeovers_s: list[float] = []
        self.handovers_s: list[float] = []
        self.leaving_s: list[float] = []  # from the word to leave to the end of the process
        self.failovers_s: list[float] = []

    async def run(self) -> dict[str, Any]:
        """Run it; return the figures, with what was found."""
        began = time.perf_counter()
        findings = self._findings
        crowd: Crowd | None = None
        figures: dict[str, int] = {}
        try:
            async with FakeTelegram.serve() as telegram, trio.open_nursery() as nursery:
                section = SECTION.format(base_url=telegram.base_url, base_file_url=telegram.base_file_url)
                self.cluster = cluster = Cluster(
                    nursery, self._mutant, self._skew_ms, section + RULES, lease_s=self._lease_s
                )
                self.phones = phones = TelegramCrowd(telegram, f"nodes/{self._seed}")
                await _up(await cluster.add(NAMES[0]))  # it makes the operator
                for node in [await cluster.add(name) for name in NAMES[1:]]:
                    await _up(node)
                await self._settled()
                if self._mutant == "no-epoch":
                    _unfence(cluster)
                crowd = Crowd(
                    *(lambda: cluster.up, self._senders, f"nodes/{self._seed}", self.ledger),
                    reminded=not self._skew_ms,
                    pause_s=self._pause_s,
                )
                cluster.armed.touch()
                await crowd.prepare()
                async with client_of(cluster.up[0].home.socket) as client:
                    await phones.prepare(client)
                wanting = Wanting(lambda: cluster.up, f"nodes/{self._seed}", planning=not self._skew_ms)
                nursery.start_soon(wanting.run)
                nursery.start_soon(crowd.run)
                nursery.start_soon(phones.run)
                for number in range(self._episodes):
                    await trio.sleep(self.rng.uniform(*_CALM_S))
                    since = trio.current_time()
                    kind = await self._episode()
                    self._spent_s.setdefault(kind, []).append(trio.current_time() - since)
                    if (number + 1) % 10 == 0:
                        say(f"{number + 1} of {self._episodes} episodes, {len(self.ledger.acknowledged)} messages")
                crowd.hush()
                phones.hush()
                wanting.hush()
                backlog = await self._rest(crowd, wanting)
                findings += backlog.findings()
                for node in cluster.up:
                    await node.stop()
                db = cluster.server.connect()
                [(versions,)] = db.simple("SELECT count(DISTINCT version) FROM nodes")
                judged = judge.judge(db, self.ledger, wanting.wanted, cluster.tools)
                judged += phones.judge()
                late = backlog.late(judged)
                findings += [each for at, each in enumerate(judged) if at not in late]
                findings += wanting.findings
                db.close()
                backlog.close()
                figures = {
                    "waited_for": crowd.waited,
                    "jobs": len(wanting.wanted.jobs),
                    "tasks": len(wanting.wanted.tasks),
                    "decided": len(wanting.wanted.decided),
                    "over_telegram": len(phones.said),
                    "marked_duplicates": phones.marked,
                    "two_pollers": phones.rivals,
                    "versions": int(str(versions)),
                    "late": len(late),
                }
                nursery.cancel_scope.cancel()
        except* (BrokenDaemonError, httpx.HTTPError, AssertionError) as errors:
            findings += [("broken", repr(error)) for error in errors.exceptions]
        finally:
            with suppress(StoreAwayError):  # the server may be what is broken
                findings += judge.of_nodes(self.cluster.server) + beacon.judge(self.cluster.beacon)
            await self._end()
        for kind, what in findings[:20]:
            say(f"{kind}: {what}")
        if findings:
            say(f"seed {self._seed}: everything is kept in {self.cluster.folder}")
        else:
            self.cluster.remove()
        counts = Counter(kind for kind, _ in findings)
        seconds = time.perf_counter() - began
        return {
            "seed": self._seed,
            "episodes": dict(sorted(self.counts.items())),
            "acknowledged": len(self.ledger.acknowledged),
            "repeated": self.ledger.resent,
            **figures,
            **{kind: counts[kind] for kind in judge.KINDS},
            "takeover_p50_s": _percentile(self.takeovers_s, 50),
            "takeover_p99_s": _percentile(self.takeovers_s, 99),
            "leaving_p50_s": _percentile(self.leaving_s, 50),
            "leaving_p99_s": _percentile(self.leaving_s, 99),
            "failover_p50_s": _percentile(self.failovers_s, 50),
            "failover_p99_s": _percentile(self.failovers_s, 99),
            "handover_p50_s": _percentile(self.handovers_s, 50),
            "handover_p99_s": _percentile(self.handovers_s, 99),
            "accepted_p50_s": _percentile(crowd.took_s if crowd else [], 50),
            "accepted_p99_s": _percentile(crowd.took_s if crowd else [], 99),
            "spent_p50_s": {kind: _percentile(each, 50) for kind, each in sorted(self._spent_s.items())},
            "episodes_a_minute": round(60 * self.counts.total() / seconds, 1),
            "seconds": round(seconds, 1),
        }

    async def _end(self) -> None:
        with trio.CancelScope(shield=True):
            for node in self.cluster.up:
                node.signal(signal.SIGCONT)
                await node.kill()
            self.cluster.server.stop()

    # -- episodes ----------------------------------------------------------------------------------------------------

    async def _episode(self) -> str:
        kind = self.rng.choices(list(self._kinds), list(self._kinds.values()))[0]
        self.counts[kind] += 1
        node = self.rng.choice(self.cluster.up)
        match kind:
            case "kill":
                await node.kill()
                await self._took(self.takeovers_s)
                node.start()
                await _up(node)
            case "revive":  # as a service manager does it: before anybody has taken over
                await node.kill()
                node.start()
                await _up(node)
            case "pause":  # it may be in the middle of something when it goes on
                node.signal(signal.SIGSTOP)
                node.down = True  # nobody asks it meanwhile
                await self._took(self.takeovers_s)
                await trio.sleep(self.rng.uniform(0, self._lease_s))
                node.signal(signal.SIGCONT)
                node.down = False
            case "cut" | "mute" | "deaf":
                node.proxy.turn(kind)
                await trio.sleep(self.rng.uniform(0.3, 3) * self._lease_s)
                node.proxy.turn("open")
            case "break":
                for each in self.cluster.up:
                    each.proxy.break_lines()
            case "answer":
                for _ in range(3):
                    await self.rng.choice(self.cluster.up).proxy.lose_answer(self._lease_s)
            case "strand":
                await self._strand()
            case "server":
                await trio.to_thread.run_sync(self.cluster.server.stop)
                await trio.sleep(self.rng.uniform(0, self._lease_s))
                await trio.to_thread.run_sync(self.cluster.server.start)
            case "failover":
                server = self.cluster.server
                standby = await trio.to_thread.run_sync(server.stand_by)
                await trio.sleep(self.rng.uniform(0.2, 2))
                began = trio.current_time()
                await trio.to_thread.run_sync(server.fail_over, standby)
                for each in self.cluster.nodes:
                    each.proxy.lead_to(server.socket)
                await self._settled()
                self.failovers_s.append(trio.current_time() - began)
            case "leave":
                began = trio.current_time()
                await node.stop()
                self.leaving_s.append(trio.current_time() - began)
                await self._took(self.handovers_s)
                node.start()
                await _up(node)
            case "upgrade":
                await node.stop()
                await self._took(self.handovers_s)
                self.cluster.give_other_version(node)
                node.start()
                await _up(node)
            case "join":
                other = next((each for each in self.cluster.nodes if each.name == "d"), None)
                if other is None:
                    other = await self.cluster.add("d")
                else:
                    other.start()
                await _up(other)
                await self._settled()
                await other.stop()
        await self._settled()
        return kind

    async def _strand(self) -> None:
        """Cut off the node that is connected with what needs no server, until others have begun and for a while."""
        name = await trio.to_thread.run_sync(self.cluster.owner_of, f"role:{of_connector(beacon.BEACON)}")
        node = next(each for each in self.cluster.up if each.name == name)
        node.proxy.turn("cut")
        await trio.sleep(self._lease_s + 3)
        node.proxy.turn("open")

    async def _took(self, into: list[float]) -> None:
        began = trio.current_time()
        await self._settled()
        into.append(trio.current_time() - began)

    async def _settled(self) -> None:
        names = {node.name for node in self.cluster.up}
        if not await self.cluster.settled(names, SETTLE_S):
            words = "\n".join(f"-- {node.name}: {node.last_words()}" for node in self.cluster.nodes)
            raise BrokenDaemonError(f"{names} never had all shards; {self.cluster.owners()} have\n{words}")

    async def _rest(self, crowd: Crowd, wanting: Wanting) -> Backlog:
        """Wait until everything is done that was asked for, or what is left is stuck, or it takes too long."""
        backlog = Backlog(self.cluster.server.connect())
        gives_up_at = trio.current_time() + GIVE_UP_S
        while trio.current_time() < gives_up_at:
            await trio.to_thread.run_sync(backlog.look)
            asked = not (crowd.silent and wanting.silent) or self.phones.unanswered
            if not asked and not backlog.items:
                await trio.sleep(_LAST_S)
                await trio.to_thread.run_sync(backlog.look)
                if not backlog.items and not self.phones.unanswered:
                    break
            elif backlog.items and all(map(backlog.is_stuck, backlog.items)):
                break
            await trio.sleep(0.25)
        return backlog


async def _up(node: Node) -> None:
    assert node.process is not None
    await node.process.ready(60.0)


def _unfence(cluster: Cluster) -> None:
    """Let commits happen whatever the epoch is."""
    db = cluster.server.connect()
    [(text,)] = db.simple("SELECT pg_get_functiondef('fence'::regproc)")
    db.simple(str(text).replace("AND epoch = mine AND state = 'alive'", ""))
    db.close()


def _percentile(values: list[float], percent: int) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 3)


def say(text: str) -> None:
    """Tell people."""
    print(text, file=sys.stderr, flush=True)
