"""What grows while people talk: memory, descriptors and the log of commits by the hour, bytes a message by table.

A real process, to whose API each of `--users` writes, waits for the answer, pauses, and writes again; now and then it
is something that a memory worker learns. Each has a job that runs every five minutes, in each fifth case as a task. The
model is a fake server on loopback that answers at once and calls a tool in each fifth turn. Slopes are lines through
the samples of the second half: what fills up once, such as caches, is in the first.
"""

import argparse
import gc
import json
import os
import random
import shutil
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import httpx
import trio
import trio.testing

from daycare.base.clock import SystemClock
from daycare.features.memory.facts.extraction_schedule import ExtractionSchedule
from daycare.features.memory.store.rows import MemoryRows
from daycare.features.upkeep.gc import Gc
from daycare.settings import Live
from daycare.store.sqlite.database import open_writer
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import open_daemon
from daycare.testing.model_server import ScriptedAnswer, ScriptedCall
from daycare.testing.openai_server import FakeOpenAI

from . import product
from .measure import rounded, rss_kib, say, scratch

T = TypeVar("T")
_SAMPLE_S: Final = 5.0
_WAIT_S: Final = 25.0
_WORDS: Final = (
    "the",
    "cat",
    "sat",
    "by",
    "a",
    "window",
    "and",
    "watched",
    "rain",
    "fall",
    "over",
    "gardens",
    "until",
    "evening",
)
_FACTS: Final = (
    "My dentist is Dr. {name}.",
    "I live in {name}.",
    "I have a cat called {name}.",
    "My sister's name is {name}.",
    "I work for {name}.",
)
_NAMES: Final = ("Weber", "Bonn", "Luna", "Marta", "Siemens", "Keller", "Porto", "Milo", "Ida", "Bosch")
_FACT_SHARE: Final = 0.1
_EVERY: Final = "*/5 * * * *"
_DAY_MS: Final = 86_400_000
_TASK_OF: Final = 5  # people, one of whom has a job whose runs are tasks


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--minutes", type=float, default=10.0, help="how long people talk")
    parser.add_argument("--users", type=int, default=30, help="people, each with an agent of their own")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between an answer and the next message")
    parser.add_argument("--embedder", default="none", help="as in config.toml: none, or local (needs daycare[local])")
    parser.add_argument("--keep", type=Path, help="where the home is left, to be looked at")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Let them talk and return slopes, sizes and bytes a message."""
    with scratch(args.dir.resolve()) as folder:
        home = folder / "home"
        home.mkdir(mode=0o700)
        found = trio.run(_soak, home, args)
        found["left"] = _left(product.database(home))
        messages = int(found["messages"])
        found["bytes_a_message"] = _by_table(product.database(home), messages)
        found["day_bytes_a_message"] = _more_than_empty(product.database(home), folder, messages)
        shutil.copytree(home, folder / "kept", ignore=shutil.ignore_patterns("*.sock"))
        trio.run(_curate, folder / "kept", args.deadline)
        trio.run(_expire, folder / "kept", clock=trio.testing.MockClock())
        found["kept_bytes_by_table"] = _by_table(product.database(folder / "kept"), messages)
        found["kept_bytes_a_message"] = _more_than_empty(product.database(folder / "kept"), folder, messages)
        if args.keep:
            shutil.copytree(home, args.keep, ignore=shutil.ignore_patterns("*.sock"))
    return found


async def _soak(home: Path, args: argparse.Namespace) -> dict[str, Any]:
    samples: list[dict[str, float]] = []
    told = {"messages": 0, "late": 0, "failed": 0}
    async with talked_with(home, args.users, args.deadline, args.embedder) as pid:
        await _schedule(home, args.users)
        with trio.move_on_after(60 * args.minutes):
            async with trio.open_nursery() as talking:
                for number in range(args.users):
                    talking.start_soon(_talk, home, number, args.pause, told)
                await _sample(home, pid, samples)
    half = samples[len(samples) // 2 :]
    return {
        **told,
        "minutes": args.minutes,
        "users": args.users,
        "embedder": args.embedder,
        "rss_mb": {f"at {int(100 * at)} %": rounded(_at(samples, at)["rss_mb"], 1) for at in (0, 0.25, 0.5, 0.75, 1)},
        "rss_mb_an_hour": rounded(_slope(half, "rss_mb"), 1),
        "anon_mb_an_hour": rounded(_slope(half, "anon_mb"), 1),
        "descriptors": max(each["descriptors"] for each in samples),
        "descriptors_an_hour": rounded(_slope(half, "descriptors"), 1),
        "wal_mb": rounded(max(each["wal_mb"] for each in samples), 1),
        "cpu_ms_a_message": rounded(1000 * samples[-1]["cpu_s"] / max(told["messages"], 1), 1),
    }


@asynccontextmanager
async def talked_with(home: Path, users: int, deadline: float, embedder: str = "none") -> AsyncIterator[int]:
    """Run a daemon with so many people, whose model is a fake server; what is yielded is the number of its process."""
    async with trio.open_nursery() as nursery, FakeOpenAI.serve(nursery, reply=_answer) as server:
        server.history = deque(maxlen=1)  # hours of prompts would take gigabytes of this process
        _furnish(home, server.base_url, users, embedder)
        with (home / "daemon.log").open("wb") as log:
            process = await trio.lowlevel.open_process(
                product.start_command(home), stdout=log, stderr=log, env={**os.environ, "DAYCARE_BREAKER": "off"}
            )
        try:
            with trio.fail_after(deadline):
                while not product.control_socket(home).exists():
                    await trio.sleep(0.1)
            yield process.pid
            if process.poll() is not None:
                raise RuntimeError(f"the daemon ended with status {process.returncode}: see {home / 'daemon.log'}")
            process.terminate()
            await process.wait()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
        nursery.cancel_scope.cancel()


def client(home: Path) -> httpx.AsyncClient:
    """Return a connection to the daemon of a home."""
    transport = httpx.AsyncHTTPTransport(uds=str(product.control_socket(home)))
    return httpx.AsyncClient(transport=transport, base_url="http://daycare", timeout=60.0)


async def say_as(client: httpx.AsyncClient, user: str, text: str) -> str:
    """Say something as somebody, wait for the answer and confirm it; return how the message then is."""
    body = {"text": text, "user": user, "wait_s": _WAIT_S}
    answer = (await client.post("/v1/messages", json=body)).raise_for_status().json()
    replies = (await client.get("/v1/replies", params={"path": f"/{user}/direct"})).json()["replies"]
    await client.post("/v1/replies/ack", json={"seqs": [each["seq"] for each in replies]})
    return str(answer["state"])


def words(dice: random.Random) -> str:
    """Return something to say."""
    if dice.random() < _FACT_SHARE:
        return dice.choice(_FACTS).format(name=dice.choice(_NAMES))
    return " ".join(dice.choices(_WORDS, k=dice.choice((3, 20, 60))))


async def _schedule(home: Path, users: int) -> None:
    """Give each a job that runs every few minutes."""
    async with client(home) as connection:
        for number in range(users):
            spec = {"cron": _EVERY, "prompt": "Say what is new."}
            if number % _TASK_OF == 0:
                spec["task"] = "news"
            body = {"id": "news", "user": f"u{number}", "spec": spec}
            (await connection.post("/v1/cron", json=body)).raise_for_status()


def _furnish(home: Path, url: str, users: int, embedder: str) -> None:
    """Make a home whose model is a server, with so many people."""
    (home / "config.toml").write_text(
        f'[models]\ndefault = "soak/model"\n\n[budgets]\nperson = []\n\n'
        f'[memory]\nembedder = "{embedder}"\n\n'
        f'[providers.soak]\nkind = "openai"\nbase_url = "{url}"\nkey = "none"\n'
    )
    now = SystemClock().now_ms()
    with closing(open_writer(str(product.database(home)))) as db, db:
        db.executemany(
            "INSERT INTO users (id, name, zone, kind, operator, origin, created_at)"
            " VALUES (?, ?, 'UTC', 'person', ?, 'system', ?)",
            ((f"u{number}", f"User {number}", int(number == 0), now) for number in range(users)),
        )
        db.executemany(
            "INSERT INTO user_connector_keys (connector_key, user, origin, created_at) VALUES (?, ?, 'person', ?)",
            ((f"direct:u{number}", f"u{number}", now) for number in range(users)),
        )


async def _talk(home: Path, number: int, pause_s: float, told: dict[str, int]) -> None:
    dice = random.Random(number)
    async with client(home) as connection:
        while True:
            await trio.sleep(dice.expovariate(1 / pause_s))
            told["messages"] += 1
            try:
                state = await say_as(connection, f"u{number}", f"{told['messages']}: {words(dice)}")
            except httpx.HTTPError as error:
                told["failed"] += 1
                say(f"u{number}: {error!r}")
                continue
            told["late"] += state == "waiting"  # the answer came after this connection had waited for it
            told["failed"] += state not in ("done", "waiting")


def _answer(body: dict[str, Any]) -> ScriptedAnswer:
    """Answer with some words; in each fifth turn after a call of a tool."""
    last = body["messages"][-1]
    length = sum(map(len, json.dumps(last)[:2_000]))
    tools = {tool["function"]["name"] for tool in body.get("tools") or ()}
    if last["role"] == "user" and length % 5 == 0 and "now" in tools:
        return ScriptedAnswer(tool_calls=(ScriptedCall("now", {}),))
    return ScriptedAnswer(text=" ".join(_WORDS[(length + n) % len(_WORDS)] for n in range(5 + length % 80)))


async def _sample(home: Path, pid: int, into: list[dict[str, float]]) -> None:
    begin = time.monotonic()
    log = Path(f"{product.database(home)}-wal")
    ticks = os.sysconf("SC_CLK_TCK")
    while True:
        await trio.sleep(_SAMPLE_S)
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        into.append(
            {
                "hours": (time.monotonic() - begin) / 3_600,
                "rss_mb": rss_kib(pid) / 1024,
                "anon_mb": _anonymous_kib(pid) / 1024,
                "descriptors": sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
                "wal_mb": log.stat().st_size / 1e6 if log.exists() else 0.0,
                "cpu_s": (int(times[11]) + int(times[12])) / ticks,
            }
        )
        if len(into) % 12 == 0:
            say(", ".join(f"{name} {rounded(value, 2)}" for name, value in into[-1].items()))


def _anonymous_kib(pid: int) -> int:
    """Return what of its memory is not a file's: pages of the database's map are the system's to take back."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")))


def _at(samples: list[dict[str, float]], share: float) -> dict[str, float]:
    return samples[round(share * (len(samples) - 1))]


def _slope(samples: list[dict[str, float]], name: str) -> float | None:
    """Return the slope of the line that fits best, by the hour."""
    if len(samples) < 2:
        return None
    hours = [each["hours"] for each in samples]
    mean, mean_of = sum(hours) / len(hours), sum(each[name] for each in samples) / len(samples)
    spread = sum((at - mean) ** 2 for at in hours)
    return sum((each["hours"] - mean) * (each[name] - mean_of) for each in samples) / spread


def _left(database: Path) -> dict[str, int]:
    """Count what people said and what was not answered: given up, or waiting as the daemon was stopped."""
    with closing(open_writer(str(database))) as db:
        states = dict(db.execute("SELECT state, count(*) FROM inbox WHERE sender LIKE 'direct:u%' GROUP BY state"))
    return {"waiting": states.get(0, 0) + states.get(3, 0), "given up": states.get(2, 0)}


async def _curate(home: Path, deadline: float) -> None:
    """Let memory workers look at what was said last: within the keep time they do, and until then it is not deleted."""
    where = product.database(home).name
    older = _living(ExtractionSchedule)
    async with open_daemon(home, location=where, clock=SystemClock(), inline=False) as house:
        [schedule] = [each for each in _living(ExtractionSchedule) if each not in older]
        with trio.fail_after(deadline):
            while await house.store.of(MemoryRows).unextracted(1):
                await schedule.look(lambda _: True)
                await trio.sleep(1.0)


def _living(kind: type[T]) -> list[T]:
    """Return the parts of this kind of all daemons of this process, also of those that have ended."""
    return [each for each in gc.get_objects() if type(each) is kind]


async def _expire(home: Path) -> None:
    """Delete what is kept no longer a day after the keep time."""
    newest = SystemClock().now_ms()
    clock = VirtualClock(newest + Live().now.store.keep_ms + _DAY_MS)
    older = _living(Gc)
    async with open_daemon(home, location=product.database(home).name, clock=clock, work=False):
        [cleanup] = [each for each in _living(Gc) if each not in older]
        for sweep in cleanup.sweeps.values():
            while await sweep(clock.now_ms()):
                pass


def _more_than_empty(database: Path, folder: Path, messages: int) -> float | None:
    """Return what the pages in use take for each message, without those of a database with nothing in it."""
    empty = folder / "empty.db"
    with closing(open_writer(str(empty))):
        pass
    return rounded((_in_use(database) - _in_use(empty)) / max(messages, 1), 0)


def _in_use(database: Path) -> int:
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        pages, free, size = (
            int(str(db.execute(f"PRAGMA {name}").fetchall()[0][0]))
            for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


def _by_table(location: Path, messages: int) -> dict[str, float | None]:
    """Return what tables and their indexes take for each message, the largest first."""
    with closing(apsw.Connection(str(location), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        rows = db.execute(
            "SELECT coalesce(m.tbl_name, s.name), sum(s.pgsize) FROM dbstat s LEFT JOIN sqlite_master m"
            " ON m.name = s.name GROUP BY 1 ORDER BY 2 DESC LIMIT 15"
        ).fetchall()
    return {str(name): rounded(int(str(size)) / max(messages, 1), 0) for name, size in rows}
