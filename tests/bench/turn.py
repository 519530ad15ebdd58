"""What a whole turn costs the daemon when the model answers at once: time, processor, memory, disk; and counted.

A real daemon on a home of its own; its model is a fake server in another process, which answers with twenty words as a
stream. A client says something to an agent over the Unix-socket API, waits for the answer, confirms it, and goes on at
once. Each figure is the median of the rounds.

Variants, each with 1 and 16 clients: `memory_off` (nothing is looked up or kept), `memory_1k` (the default settings,
and each person has 1,000 memories), `memory_100k` (one person has 100,000, and all clients talk to agents of theirs),
`tool` (as memory_1k, and the model asks for one tool first), `telegram` (as memory_1k over Telegram's fake; the
connector sends one answer a second to a chat, as Telegram allows, so that only the processor's time says much).

    turns_s             turns a second, of all clients together; clients and model share the machine
    p50_ms, p99_ms      milliseconds from sending a message to its durable answer
    cpu_ms_per_turn     milliseconds of processor time of the daemon's process; includes what follows an answer
    bytes_per_turn      growth of the database, in bytes of pages in use
    log_bytes_per_turn  growth of daycare.log
    rss_mb              resident memory at the end
    recalled            share of the turns for which something was found within the deadline of recalling
    cpu_vs_bare, p50_vs_bare   divided by `bare`: one call of the model with what a turn sends, and one commit

From a second daemon, which counts and is used for nothing else (`turn_counted`):

    sql_per_turn, commits_per_turn        statements that SQLite begins, and transactions that write
    calls_per_turn, model_bytes_per_turn  calls of the model, and bytes of their bodies
    imported                              modules that the first turns import
    loop_hold_ms_max, loop_hold_cpu_ms_max   the longest that a task held the event loop: by the clock, without what
                                          the kernel let it wait for a processor, and in processor time of its thread
    holds                                 the causes of what took more than 5 ms, by variant; see `turn_holds`

`bare` has the milliseconds of one call with httpx, the usual client (`call_ms`, `call_cpu_ms`), and of one
commit of 1 KB with apsw and synchronous=FULL (`commit_ms`, `commit_cpu_ms`).

`long` is one conversation of `--long` turns without memory of others: `early_ms` is the median processor time of turns
6 to 15, `late_ms` of the last ten, `growth` late divided by early; `fresh_ms` is of turns 6 to 15 in sessions begun
afterwards, when as much is remembered, and `growth_fresh` late divided by that.

`nanobot` has the same for the package nanobot-ai (its `turn_peer`), which is installed for the run; then variants have
`nanobot_cpu_ratio`: its processor time of a turn with as many clients, divided by ours.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import trio

from daycare.features.memory.recall import RECALL_WARM_S

from . import turn_bare, turn_holds, turn_home, turn_peer, turn_servers
from .measure import median, percentile, rounded, rss_kib, say, scratch
from .turn_counted import MODULES
from .turn_daemon import Daemon, daemon, talk
from .turn_home import VARIANTS, Variant

CLIENTS: Final = (1, turn_home.PEOPLE)
_AFTER_S: Final = 1.0  # in which what follows the last answers is done
_WINDOW: Final = (5, 15)  # turns of a conversation
_SESSIONS: Final = 3
_TELEGRAM: Final = """
[plugins.telegram]
base_url = "{base_url}"
base_file_url = "{base_file_url}"
poll_s = 5
"""
_OTHERS: Final = ("telegram", "long", "nanobot")
Figures = dict[str, float | None]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--turns", type=int, default=160, help="turns that are measured, of all clients together")
    parser.add_argument("--long", type=int, default=300, help="turns of the long conversation")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help=f"up to {turn_home.PEOPLE}")
    parser.add_argument("--warm", type=int, default=10, help="turns of each client before those that are measured")
    parser.add_argument("--settle", type=float, default=3.0, help="seconds after these, in which memories are read")
    parser.add_argument("--only", nargs="+", choices=[*VARIANTS, *_OTHERS], help="these variants")
    parser.add_argument("--nanobot", help="the program of the peer; without it a venv is made for the run")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure all variants in each round; return their medians."""
    wanted = args.only or [*VARIANTS, *_OTHERS]
    rounds: list[dict[str, Figures]] = []
    args.holds = {}
    with scratch(args.dir.resolve()) as folder:
        for name, variant in [*VARIANTS.items(), ("long", _LONG)]:
            if name in wanted or (name, "telegram" in wanted) == (_LIKE_TELEGRAM, True):
                turn_home.build(folder / name, variant)
        if args.rounds > 1:  # else the first to start has more memory, and nobody minds
            trio.run(_compile, folder, args)
        if "nanobot" in wanted and args.nanobot is None:
            args.nanobot = turn_peer.install(folder / "peer")
        peer = turn_peer.version(args.nanobot) if args.nanobot else None
        for number in range(args.rounds):
            rounds.append(trio.run(_round, folder, args, wanted))
            say(f"round {number + 1} is over")
    holds = {name: turn_holds.causes(each) for name, each in args.holds.items()}
    return {"turns": args.turns, "peer_version": peer, "holds": holds, **_medians(rounds)}


_LONG: Final = Variant()
_LIKE_TELEGRAM: Final = "memory_1k"


def _medians(rounds: Sequence[dict[str, Figures]]) -> dict[str, dict[str, float | None]]:
    return {
        name: {key: rounded(median([each[name].get(key) for each in rounds])) for key in rounds[0][name]}
        for name in rounds[0]
    }


async def _compile(folder: Path, args: argparse.Namespace) -> None:
    """Start a daemon once, so that no measured one compiles its modules."""
    turn_home.build(folder / "first", _LONG)
    async with turn_servers.model() as model:
        await _Bench(args, folder, "first", _LONG, model).measure(1)


async def _round(folder: Path, args: argparse.Namespace, wanted: Sequence[str]) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    async with turn_servers.model() as model:
        for name, variant in VARIANTS.items():
            bench = _Bench(args, folder, name, variant, model)
            for clients in args.clients if name in wanted else ():
                found[f"{name}_{clients}"] = await bench.measure(clients)
        bench = _Bench(args, folder, _LIKE_TELEGRAM, VARIANTS[_LIKE_TELEGRAM], model)
        for clients in args.clients if "telegram" in wanted else ():
            found[f"telegram_{clients}"] = await bench.over_telegram(clients)
        if "long" in wanted:
            found["long"] = await _Bench(args, folder, "long", _LONG, model).long()
        found["bare"] = await turn_bare.measure(folder, model, args.turns)
        for figures in found.values():
            figures |= turn_bare.ratios(figures, found["bare"])
        if "nanobot" in wanted and args.nanobot:
            peers = await turn_peer.measure(args.nanobot, folder, model, args)
            for name, figures in found.items():
                figures |= turn_peer.ratio(figures, peers.get(f"nanobot_{name.rpartition('_')[2]}"))
            found |= peers
    for name, figures in found.items():
        say(f"{name}: " + ", ".join(f"{key} {rounded(value)}" for key, value in figures.items()))
    return found


class _Bench:
    """One variant."""

    def __init__(
        self, args: argparse.Namespace, folder: Path, name: str, variant: Variant, model: turn_servers.Model
    ) -> None:
        self._args = args
        self._folder = folder
        self._name = name
        self._template = folder / name
        self._variant = variant
        self._model = model

    async def measure(self, clients: int) -> Figures:
        """Let so many clients talk, first to a daemon that is measured, then to one that counts."""
        turns = max(1, self._args.turns // clients)
        with scratch(self._folder) as here:
            self._furnish(here / "h")
            async with daemon(here / "h", self._args.deadline) as it:
                found = await self._timed(it, clients, turns)
        with scratch(self._folder) as here:
            self._furnish(here / "h")
            async with daemon(here / "h", self._args.deadline, counts=True) as it:
                found |= await self._counted(it, clients, turns)
                holds = turn_holds.read(it.holds)
        self._args.holds.setdefault(f"{self._name}_{clients}", []).extend(holds)
        return found

    async def over_telegram(self, clients: int) -> Figures:
        """Let so many people write to a bot; a few turns each, as each chat gets one answer a second."""
        turns = max(1, min(self._args.turns, 160) // 10 // clients + 4)
        async with turn_servers.telegram(clients, turns) as server:
            with scratch(self._folder) as here:
                self._furnish(here / "h", _TELEGRAM.format(**vars(server)))
                async with daemon(here / "h", self._args.deadline) as it:
                    async with it.client() as client:
                        await client.call("PUT", "/v1/keys/telegram", {"value": server.token})
                    await server.drive()  # the first time it is not counted
                    found = await _counting(it, clients * turns, server.drive)
                    del found["bytes_per_turn"]  # of so few turns they say nothing
                    return found

    async def long(self) -> Figures:
        """Talk for long with one agent, then in sessions that have just begun."""
        first, last = _WINDOW
        with scratch(self._folder) as here:
            self._furnish(here / "h")
            async with daemon(here / "h", self._args.deadline) as it, it.talkers(self._variant, 1) as (talker,):

                async def take(text: str | None = None) -> float:
                    begin = it.cpu_ms()
                    await talker.turn(text)
                    return it.cpu_ms() - begin

                whole = [await take() for _ in range(self._args.long)]
                fresh: list[float] = []
                for _ in range(_SESSIONS):
                    await take("/reset")
                    fresh += [await take() for _ in range(last)][first:]
        early, late, new = (median(each) or 0.0 for each in (whole[first:last], whole[first - last :], fresh))
        ratios = {"growth": late / early, "growth_fresh": late / new}
        return {"early_ms": early, "late_ms": late, "fresh_ms": new, **ratios}

    def _furnish(self, home: Path, more: str = "") -> None:
        turn_home.furnish(home, self._template, self._variant, self._model.url, more)

    async def _timed(self, it: Daemon, clients: int, turns: int) -> Figures:
        async with it.talkers(self._variant, clients) as talkers:
            await talk(talkers, self._args.warm)
            await trio.sleep(self._args.settle)
            return await _counting(it, clients * turns, lambda: talk(talkers, turns))

    async def _counted(self, it: Daemon, clients: int, turns: int) -> Figures:
        assert it.counters is not None
        async with it.talkers(self._variant, clients) as talkers:
            await trio.sleep(_AFTER_S + RECALL_WARM_S)
            modules = it.counters.values[MODULES]
            await talk(talkers, self._args.warm)
            modules = it.counters.values[MODULES] - modules
            await trio.sleep(self._args.settle)
            calls, sent = await self._model.sent()
            it.counters.reset()
            await talk(talkers, turns)
            await trio.sleep(_AFTER_S)
            statements, commits, hold_us, hold_cpu_us, _ = it.counters.values
            calls_then, sent_then = await self._model.sent()
        every = clients * turns
        return {
            "sql_per_turn": statements / every,
            "commits_per_turn": commits / every,
            "calls_per_turn": (calls_then - calls) / every,
            "model_bytes_per_turn": (sent_then - sent) / every,
            "loop_hold_ms_max": hold_us / 1_000,
            "loop_hold_cpu_ms_max": hold_cpu_us / 1_000,
            "imported": modules,
        }


async def _counting(it: Daemon, turns: int, take: Any) -> Figures:
    """Let turns be taken, and return what they cost the daemon."""
    recalled, database, log = it.recalled(), it.database_bytes(), it.log_bytes()
    cpu_ms = it.cpu_ms()
    begin = trio.current_time()
    waits = await take()
    took_s = trio.current_time() - begin
    await trio.sleep(_AFTER_S)
    return {
        "turns_s": turns / took_s,
        "p50_ms": 1_000 * (median(waits) or 0.0),
        "p99_ms": 1_000 * (percentile(waits, 99) or 0.0),
        "cpu_ms_per_turn": (it.cpu_ms() - cpu_ms) / turns,
        "bytes_per_turn": (it.database_bytes() - database) / turns,
        "log_bytes_per_turn": (it.log_bytes() - log) / turns,
        "rss_mb": rss_kib(it.pid) / 1_024,
        "recalled": (it.recalled() - recalled) / turns,
    }
