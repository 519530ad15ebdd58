"""A real daemon, a bridge process that is killed, frozen and talks rubbish, and people who talk over it meanwhile.

Calm and troubled stretches take turns. In both somebody asks the daemon's API, past the bridge: what a bridge does must
not slow down anybody else. Between them the daemon is killed, too, at any moment and right before it commits what came
over the bridge; where there is a sandbox, the bridges of every second daemon are in one.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import apsw
import httpx
import trio

from daycare.base.bridge import FileAt
from daycare.testing.daemon_process import BrokenDaemonError, DaemonProcess, client_of
from daycare_plugins.bridge.folder import began
from daycare_plugins.bridge.testing.platform import FakePlatform, platform
from daycare_plugins.telegram.testing.server import FakePerson
from tests.bridge.helpers import CAN_SANDBOX, to_load
from tests.crash.process import Home
from tests.judges.bridge import RECORDED, faults_of
from tests.planted import plugin as planted
from tests.telegram.campaign import judge, mind
from tests.telegram.campaign.judge import Said
from tests.telegram.campaign.killer import WATCHED
from tests.telegram.campaign.mind import units
from tests.telegram.campaign.report import Report, percentile, say
from tests.telegram.campaign.stage import Room

KINDS: Final = ("lost", "doubled", "reordered", "astray", "mistold", "confirmed_early", "left", "slow", "broken")
PEOPLE: Final = 8
SAY_EVERY_S: Final = 0.12  # somebody of them
PROBE_EVERY_S: Final = 0.05  # in a long one, whose figures are judged; else ten times that
READY_S: Final = 40.0  # for a daemon and its bridge to be there again
FAULT_EVERY_S: Final = 0.9  # on average
STRETCH_S: Final = 15.0  # of trouble, and then a calm one
QUIET_S: Final = 90.0
P99_RATIO_MAX: Final = 1.5
AT_COMMIT_SHARE: Final = 0.7  # of the daemon's deaths come before it commits what somebody said
DEATHS_OF_DAEMONS: Final = (1, 4)  # between two stretches, in a short campaign and in a long one
HEARD: Final = "SELECT count(*) FROM inbox WHERE sender LIKE 'fake:%'"
QUOTED_SHARE, FORWARDED_SHARE, FILE_SHARE = 0.15, 0.1, 0.1
POINTS: Final = ("spooled", "offered", "sending", "sent", "answering", "acknowledged")
_CONFIG: Final = """\
[models]
default = "mind/names"

[providers.mind]
kind = "mind"

[plugins]
load = [{plugins}]

[plugins.bridge.to.fake]
command = ["{python}", "-m", "daycare_plugins.bridge.testing.fake", "--platform", "{socket}", "--record", "{record}"]
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
        self._always_sandboxed = sandboxed
        self._sandboxed = True  # that of the last daemon
        self._long = kills > 20
        self._rng = random.Random(f"bridge/{seed}")
        self._rooms = [
            Room(number, FakePerson(id=number, first_name=f"Person {number}"), []) for number in range(PEOPLE)
        ]
        self._said: dict[str, Said] = {}  # by id
        self._lives: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._asked: dict[str, list[float]] = {"calm": [], "troubled": []}
        self._phase = "calm"
        self._home = Home()
        self._process: DaemonProcess | None = None
        self._over = trio.Event()

    async def run(self) -> Report:
        """Run it."""
        began = time.perf_counter()
        async with platform(self._home.folder / "p.sock") as there:
            there.on_acknowledged.append(self._acknowledged)
            try:
                self._process = self._start()
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

    def _start(self, **more: Any) -> DaemonProcess:
        """Start a daemon, whose bridges are in a sandbox or not; one that dies at once is as the one before it."""
        if not more:
            self._sandboxed = CAN_SANDBOX and (self._always_sandboxed or not self._sandboxed)
        self._lives["sandboxed" if self._sandboxed else "bare"] += 1
        plugins = ["tests.telegram.campaign.mind:plugin", *to_load(), *planted.to_load()]
        config = _CONFIG.format(
            plugins=", ".join(f'"{plugin}"' for plugin in plugins),
            python=sys.executable,
            record=RECORDED,
            socket=self._home.folder / "p.sock",
            path=os.environ.get("PYTHONPATH", ""),
            folder=self._home.folder,
            sandbox="required" if self._sandboxed else "off",
        )
        (self._home.path / "config.toml").write_text(config + planted.section())
        return DaemonProcess(self._home, **more)

    def _acknowledged(self, ids: Sequence[str]) -> None:
        """What is acknowledged to a bridge is committed by then."""
        db = apsw.Connection(str(self._home.database), flags=apsw.SQLITE_OPEN_READONLY)
        db.set_busy_timeout(5_000)
        try:
            for id_ in ids:
                if not db.execute("SELECT 1 FROM inbox WHERE key = ? LIMIT 1", (id_,)).fetchall():
                    self.report.find("confirmed_early", f"{id_} was acknowledged, and is in no inbox")
        finally:
            db.close()

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
                self._phase = "restarting"
                for _ in range(DEATHS_OF_DAEMONS[self._long]):
                    await self._kill_daemon(there)
                await trio.sleep(1.0)
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
        return self._faults["kill"] + self._faults["die at a point"]

    async def _fault(self, there: FakePlatform) -> None:
        deeds = {"kill": 8, "die at a point": 8, "freeze": 2, "freeze for long": 0.5, "garbage": 3, "long line": 0.5}
        deed = self._rng.choices([*deeds], [*deeds.values()])[0]
        there.connected = trio.Event()
        if deed == "kill":
            if not self._signal(there, signal.SIGKILL):
                return
        elif deed == "die at a point":
            there.order("die_at", point=self._rng.choice(POINTS))
            self._say(there)
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
        if deed in ("kill", "die at a point", "freeze for long"):
            with trio.move_on_after(10):
                await there.connected.wait()

    async def _kill_daemon(self, there: FakePlatform) -> None:
        """Kill the daemon and start the next, whose bridge must find no older one that uses the same account."""
        assert self._process is not None
        process, self._process = self._process, None
        await process.kill()
        if self._rng.random() < AT_COMMIT_SHARE:
            environment = {"DAYCARE_KILL_WHEN": HEARD, "DAYCARE_KILL_AT": "before"}
            process = self._start(module=WATCHED, environment=environment)
            while not await process.died(SAY_EVERY_S):
                self._say(there)
            await process.kill()
            self._faults["daemon before a commit"] += 1
        else:
            self._faults["daemon at any moment"] += 1
        pid, there.connected = there.bridge_pid, trio.Event()
        self._process = process = self._start()
        await process.ready()
        with trio.move_on_after(READY_S):
            await there.connected.wait()
            if there.bridge_pid != pid and began(pid) != "-":
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
            self._say(there)

    def _say(self, there: FakePlatform) -> None:
        """Let somebody say something; some of it answers something, is forwarded, or comes with a file."""
        room = self._rng.choice(self._rooms)
        name = room.name()
        words = f"words of {name.replace('m', 'file')}"
        chance = self._rng.random()
        quoted = f"what {room.number} said once" if chance < QUOTED_SHARE else ""
        forwarded = 0 <= chance - QUOTED_SHARE < FORWARDED_SHARE
        file = 0 <= chance - QUOTED_SHARE - FORWARDED_SHARE < FILE_SHARE
        said = Said(
            name, room, room.number, f"id:{name}", words=name, quotes=quoted, forwarded=forwarded,
            file=words.encode() if file else b"",
        )  # fmt: skip
        self._said[said.key] = said
        files = (FileAt(name="words.txt", media_type="text/plain", size=len(words), reference=words, key=name),)
        there.say(
            f"p{room.number}", name, id=said.key, message=name, quoted=quoted, forwarded=forwarded,
            files=files if file else (),
        )  # fmt: skip

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
                    if phase == self._phase and phase in self._asked:
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
        with trio.move_on_after(planted.patience_s(QUIET_S)):
            while len(self._answered(there)) < len(self._said) or there.waiting:
                await trio.sleep(0.1)
            await trio.sleep(1.0)

    def _answered(self, there: FakePlatform) -> set[str]:
        return {unit for one in there.sent for unit in units(one.text)}

    def _judge(self, there: FakePlatform) -> None:
        for wrong in faults_of(self._home.path / "plugins" / "bridge" / "fake"):
            self.report.find("broken", f"a line that is not in the schema: {wrong}")
        db = apsw.Connection(str(self._home.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            store = judge.read(db)
            given_up = judge.given_up_keys(db)
            judge.left_over(db, self.report, sum(self._faults[deed] for deed in self._faults if "daemon" in deed))
        finally:
            db.close()
        arrived: Counter[str] = Counter()
        for one in there.sent:
            arrived.update(set(units(one.text)))
        newest: dict[int, tuple[int, str]] = {}
        order = {unit: at for at, one in enumerate(there.sent) for unit in reversed(units(one.text))}
        for one in there.sent:
            if astray := [unit for unit in units(one.text) if f"p{judge.room_of(unit)}" != one.to]:
                self.report.find("astray", f"{one.to} was sent {astray[:3]}")
        told = [request for request in mind.told(self._home.folder) if not _is_probe(request)]
        judge.judge_told(store, told, [*self._said.values()], self.report, may_miss_files=True)
        for id_, said in self._said.items():
            person, name = said.room.number, said.name
            rows = store.rows.get(id_, [])
            if len(rows) != 1:
                self.report.find("lost" if not rows else "doubled", f"{name} has {len(rows)} inbox rows")
            if (read := len(store.heard.get(name, []))) != 1:
                self.report.find("lost" if not read else "doubled", f"{name} was read in {read} turns")
            if arrived[name] != 1:
                if arrived[name] or id_ not in given_up:
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
        if ratio is not None and ratio > P99_RATIO_MAX and self._long:
            self.report.find("slow", f"p99 {troubled} s in trouble, {calm} s without: {ratio} times")
        self.report.figures = {
            "said": len(self._said),
            "sends": len(there.sent),
            "sent_again_with_the_same_key": there.repeats,
            "marked": sum(bool(one.mark) for one in there.sent),
            "faults": dict(self._faults),
            "kills": self._deaths,
            "bridge_lives": there.connections,
            "daemon_lives": dict(self._lives),
            "probes": {phase: len(found) for phase, found in self._asked.items()},
            "p50_s": {phase: percentile(found, 50) for phase, found in self._asked.items()},
            "p99_s": {"calm": calm, "troubled": troubled},
            "p99_ratio": ratio,
            "took_s": round(took_s),
        }


async def run(kills: int, seed: int, *, sandboxed: bool = False) -> Report:
    """Run a campaign. `sandboxed` puts the bridges of all daemons into bubblewrap, not only every second one's."""
    return await Campaign(kills, seed, sandboxed=sandboxed).run()


def _is_probe(request: mind.Told) -> bool:
    return any(name.startswith("m99-") for heard in request.now for name in mind.names(heard.text))


def as_text(found: dict[str, Any]) -> str:
    """Return what was found as lines."""
    return "\n".join(f"{name}: {value}" for name, value in found.items())
