"""A real daemon, a bridge process that is killed, frozen and talks rubbish, and people who talk over it meanwhile.

Calm and troubled stretches take turns. In both somebody asks the daemon's API, past the bridge: what a bridge does must
not slow down anybody else.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import apsw
import httpx
import trio

from daycare.testing.bridge_platform import FakePlatform, platform
from tests.bridge.helpers import to_load
from tests.crash.load import client_of
from tests.crash.process import BrokenDaemonError, Home, Process
from tests.telegram.campaign import judge
from tests.telegram.campaign.mind import units
from tests.telegram.campaign.report import Report, percentile, say

KINDS: Final = ("lost", "doubled", "reordered", "left", "slow", "broken")
PEOPLE: Final = 8
SAY_EVERY_S: Final = 0.12  # somebody of them
PROBE_EVERY_S: Final = 0.05  # in a long one, whose figures are judged; else ten times that
READY_S: Final = 40.0  # for a daemon and its bridge to be there again
FAULT_EVERY_S: Final = 0.9  # on average
STRETCH_S: Final = 15.0  # of trouble, and then a calm one
QUIET_S: Final = 90.0
P99_RATIO_MAX: Final = 1.5
POINTS: Final = ("spooled", "offered", "sending", "sent", "answering", "acknowledged")
_CONFIG: Final = """\
[models]
default = "mind/names"

[providers.mind]
kind = "mind"

[plugins]
load = [{plugins}]

[plugins.bridge.to.fake]
command = ["{python}", "-m", "daycare.testing.bridge_fake", "--platform", "{socket}"]
heartbeat_s = 0.3
deaf_s = 1.5
exits_max = 0
sandbox = "{sandbox}"
readable = ["{folder}"]
environment = {{ PYTHONPATH = "{path}" }}
"""


class Campaign:
    """One run."""

    def __init__(self, kills: int, seed: int, *, sandboxed: bool) -> None:
        self.report = Report("bridge", seed, kinds=KINDS)
        self._kills = kills
        self._sandboxed = sandboxed
        self._long = kills > 20
        self._rng = random.Random(f"bridge/{seed}")
        self._said: dict[str, tuple[str, str]] = {}  # id: (person, name)
        self._faults: Counter[str] = Counter()
        self._asked: dict[str, list[float]] = {"calm": [], "troubled": []}
        self._phase = "calm"
        self._home = Home()
        self._process: Process | None = None
        self._over = trio.Event()

    async def run(self) -> Report:
        """Run it."""
        began = time.perf_counter()
        async with platform(self._home.folder / "p.sock") as there:
            self._configure()
            try:
                self._process = Process(self._home)
                await self._process.ready()
                await self._introduce()
                await self._talk(there)
                await self._quiet(there)
                with suppress(BrokenDaemonError):
                    await self._process.stop()
                self._judge(there)
            except (BrokenDaemonError, httpx.HTTPError, apsw.Error) as error:
                self.report.find("broken", repr(error))
            finally:
                with trio.CancelScope(shield=True):
                    if self._process is not None:
                        await self._process.kill()
        self._figures(there, time.perf_counter() - began)
        for kind, what in self.report.findings[:20]:
            say(f"{kind}: {what}")
        if self.report.harm:
            say(f"seed {self.report.seed}: the home is kept in {self._home.folder}")
        else:
            self._home.remove()
        return self.report

    def _configure(self) -> None:
        plugins = ["tests.telegram.campaign.mind:plugin", *to_load()]
        config = _CONFIG.format(
            plugins=", ".join(f'"{plugin}"' for plugin in plugins),
            python=sys.executable,
            socket=self._home.folder / "p.sock",
            path=os.environ.get("PYTHONPATH", ""),
            folder=self._home.folder,
            sandbox="required" if self._sandboxed else "off",
        )
        (self._home.path / "config.toml").write_text(config)

    async def _introduce(self) -> None:
        async with client_of(self._home.socket) as client:
            for number in range(PEOPLE):
                (await client.post("/v1/users", json={"id": f"c{number}"})).raise_for_status()
                link = await client.post(f"/v1/users/c{number}/links", json={"key": f"fake:p{number}"})
                link.raise_for_status()

    # -- what happens --------------------------------------------------------------------------------------------------

    async def _talk(self, there: FakePlatform) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._people, there)
            nursery.start_soon(self._probe)
            await trio.sleep(3.0 if self._long else 1.0)  # everything is imported by then
            self._asked["calm"].clear()
            while self._deaths < self._kills:
                await trio.sleep(STRETCH_S / 2 if self._long else 1.0)
                self._phase = "troubled"
                with trio.move_on_after(STRETCH_S):
                    while self._deaths < self._kills:
                        await trio.sleep(self._rng.expovariate(1 / FAULT_EVERY_S))
                        await self._fault(there)
                await trio.sleep(1.0)
                self._phase = "calm"
            await trio.sleep(STRETCH_S / 2 if self._long else 1.0)
            self._over.set()
            await trio.sleep(0.5)
            nursery.cancel_scope.cancel()

    @property
    def _deaths(self) -> int:
        return self._faults["kill"] + self._faults["die at a point"] + self._faults["kill the daemon"]

    async def _fault(self, there: FakePlatform) -> None:
        deeds = {"kill": 8, "die at a point": 8, "freeze": 2, "freeze for long": 0.5, "garbage": 3, "long line": 0.5}
        if self._sandboxed:
            deeds["kill the daemon"] = 8
        deed = self._rng.choices([*deeds], [*deeds.values()])[0]
        there.connected = trio.Event()
        if deed == "kill":
            if not self._signal(there, signal.SIGKILL):
                return
        elif deed == "kill the daemon":
            with trio.move_on_after(READY_S):
                await self._kill_daemon(there)
        elif deed == "die at a point":
            there.order("die_at", point=self._rng.choice(POINTS))
            there.say(*self._next("now"), id=self._last)
        elif deed == "freeze":
            if not self._signal(there, signal.SIGSTOP):
                return
            await trio.sleep(self._rng.uniform(0.1, 1.0))
            self._signal(there, signal.SIGCONT)
        elif deed == "freeze for long":
            self._signal(there, signal.SIGSTOP)
        elif deed == "garbage":
            there.order("garbage", lines=self._rng.randint(1, 500))
        else:
            there.order("long", bytes=32 * 1024 * 1024)
        self._faults[deed] += 1
        if deed in ("kill", "die at a point", "freeze for long", "kill the daemon"):
            with trio.move_on_after(10):
                await there.connected.wait()

    async def _kill_daemon(self, there: FakePlatform) -> None:
        """Kill the daemon and start the next, whose bridge must find no older one that uses the same account."""
        assert self._process is not None
        pid, process = there.bridge_pid, self._process
        self._process = None
        await process.kill()
        there.connected = trio.Event()
        self._process = process = Process(self._home)
        await process.ready()
        await there.connected.wait()
        if there.bridge_pid != pid and Path(f"/proc/{pid}").exists():
            self.report.find("left", "a bridge of the killed daemon runs beside the next one")

    def _signal(self, there: FakePlatform, number: int) -> bool:
        if not there.bridge_pid:
            return False
        try:
            os.kill(there.bridge_pid, number)
        except ProcessLookupError:
            return False
        return True

    async def _people(self, there: FakePlatform) -> None:
        while not self._over.is_set():
            await trio.sleep(self._rng.expovariate(1 / SAY_EVERY_S))
            there.say(*self._next(), id=self._last)

    def _next(self, _: str = "") -> tuple[str, str]:
        number = self._rng.randrange(PEOPLE)
        count = sum(1 for person, _ in self._said.values() if person == f"p{number}") + 1
        name = f"m{number}-{count}"
        self._last = f"id:{name}"
        self._said[self._last] = (f"p{number}", name)
        return f"p{number}", name

    async def _probe(self) -> None:
        """Ask the daemon something, past the bridge, and see how long that takes."""
        number = 0
        async with client_of(self._home.socket) as client:
            while True:
                number += 1
                phase, began = self._phase, time.perf_counter()
                body = {"text": f"m99-{number}", "key": f"probe:{number}", "wait_s": 20}
                process = self._process
                try:
                    answer = await client.post("/v1/messages", json=body)
                    answer.raise_for_status()
                    if phase == self._phase:
                        self._asked[phase].append(time.perf_counter() - began)
                    if seqs := [reply["seq"] for reply in answer.json().get("replies", ())]:
                        (await client.post("/v1/replies/ack", json={"seqs": seqs})).raise_for_status()
                except httpx.TransportError:
                    if process is not None and process is self._process and process.ready_s is not None:
                        raise  # nobody killed it
                await trio.sleep(PROBE_EVERY_S if self._long else 10 * PROBE_EVERY_S)

    # -- what came of it -----------------------------------------------------------------------------------------------

    async def _quiet(self, there: FakePlatform) -> None:
        """Wait until everything is answered."""
        with trio.move_on_after(QUIET_S):
            while len(self._answered(there)) < len(self._said) or there.waiting:
                await trio.sleep(0.1)
            await trio.sleep(1.0)

    def _answered(self, there: FakePlatform) -> set[str]:
        return {unit for one in there.sent for unit in units(one.text)}

    def _judge(self, there: FakePlatform) -> None:
        db = apsw.Connection(str(self._home.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            store = judge.read(db)
            judge.left_over(db, self.report)
        finally:
            db.close()
        arrived: Counter[str] = Counter()
        for one in there.sent:
            arrived.update(set(units(one.text)))
        newest: dict[str, tuple[int, str]] = {}
        order = {unit: at for at, one in enumerate(there.sent) for unit in reversed(units(one.text))}
        for id_, (person, name) in self._said.items():
            rows = store.rows.get(id_, [])
            if len(rows) != 1:
                self.report.find("lost" if not rows else "doubled", f"{name} has {len(rows)} inbox rows")
            if (read := len(store.heard.get(name, []))) != 1:
                self.report.find("lost" if not read else "doubled", f"{name} was read in {read} turns")
            if arrived[name] != 1:
                self.report.find(
                    "lost" if not arrived[name] else "doubled", f"{name} was answered {arrived[name]} times"
                )
                continue
            before = newest.get(person, (-1, ""))
            if order[name] < before[0]:
                self.report.find("reordered", f"{name} was answered before {before[1]}")
            newest[person] = max(before, (order[name], name))

    def _figures(self, there: FakePlatform, took_s: float) -> None:
        calm, troubled = (percentile(self._asked[phase], 99) for phase in ("calm", "troubled"))
        ratio = round(troubled / calm, 2) if calm and troubled else None
        if ratio is not None and ratio > P99_RATIO_MAX and self._long and not self._sandboxed:  # it starts daemons, too
            self.report.find("slow", f"p99 {troubled} s in trouble, {calm} s without: {ratio} times")
        self.report.figures = {
            "said": len(self._said),
            "sends": len(there.sent),
            "sent_again_with_the_same_key": there.repeats,
            "marked": sum(bool(one.mark) for one in there.sent),
            "faults": dict(self._faults),
            "kills": self._deaths,
            "bridge_lives": there.connections,
            "probes": {phase: len(found) for phase, found in self._asked.items()},
            "p50_s": {phase: percentile(found, 50) for phase, found in self._asked.items()},
            "p99_s": {"calm": calm, "troubled": troubled},
            "p99_ratio": ratio,
            "took_s": round(took_s),
        }


async def run(kills: int, seed: int, *, sandboxed: bool = False) -> Report:
    """Run a campaign. `sandboxed` puts the bridge into bubblewrap, and kills the daemon, too."""
    return await Campaign(kills, seed, sandboxed=sandboxed).run()


def as_text(found: dict[str, Any]) -> str:
    """Return what was found as lines."""
    return "\n".join(f"{name}: {value}" for name, value in found.items())
