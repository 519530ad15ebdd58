"""The peer of `turn`: `nanobot serve` of the package nanobot-ai, an agent behind an API, with the same fake model.

    python -m tests.bench turn --only memory_off memory_1k nanobot

It is installed into a venv that the bench makes for the run, and is no dependency of ours; `--nanobot PROGRAM` names
one that is there already.

Set up as its documentation says: a config file whose provider `custom` is the model's server, and its OpenAI-compatible
API on loopback (docs/openai-api.md). Each client has a session of its own and sends one message at a time. It keeps
conversations in files without flushing them, has tools of its own in its prompt, and its API is HTTP over TCP and not a
Unix socket: `model_bytes_per_turn` says how much it sent.
"""

import argparse
import json
import random
import shutil
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

import trio

from .measure import median, percentile, rss_kib, say, scratch
from .turn_daemon import Client, environment, process_cpu_ms
from .turn_servers import Model

PACKAGE: Final = "nanobot-ai[api]>=0.3,<0.4"

_WARM_UP: Final = 10
_POLL_S: Final = 0.2
Figures = dict[str, float | None]


def install(folder: Path) -> str:
    """Make a venv with the peer in a folder and return its program; "" with a line on why if that fails."""
    made = ([sys.executable, "-m", "venv", str(folder)], [str(folder / "bin/pip"), "install", "-q", PACKAGE])
    for command in made:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            say(f"nanobot is left out: {' '.join(command)}: {done.stderr.strip()[-500:]}")
            return ""
    return str(folder / "bin/nanobot")


def version(program: str) -> str | None:
    """Return what is installed, None if nothing is."""
    found = shutil.which(program)
    if found is None:
        return None
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return told.stdout.split()[-1] if told.returncode == 0 and told.stdout.split() else None


def ratio(ours: Figures, peer: Figures | None) -> Figures:
    """Return how many times as much processor time a turn takes the peer with as many clients; nothing if unknown."""
    own, theirs = ours.get("cpu_ms_per_turn"), peer.get("cpu_ms_per_turn") if peer is not None else None
    return {"nanobot_cpu_ratio": theirs / own} if own and theirs else {}


async def measure(program: str, folder: Path, model: Model, args: argparse.Namespace) -> dict[str, Figures]:
    """Return the figures for each number of clients; none, with a line on why, if it cannot run here."""
    found = shutil.which(program)
    if found is None:
        say(f"nanobot is left out: there is no program {program}")
        return {}
    figures: dict[str, Figures] = {}
    for count in args.clients:
        with scratch(folder) as here:
            try:
                with trio.fail_after(args.deadline):
                    figures[f"nanobot_{count}"] = await _measure(found, here, model, count, args.turns)
            except (OSError, RuntimeError, trio.TooSlowError) as error:
                say(f"nanobot with {count} clients is left out: {error or type(error).__name__}")
    return figures


async def _measure(program: str, folder: Path, model: Model, clients: int, turns: int) -> Figures:
    port = _free_port()
    config = folder / "config.json"
    config.write_text(
        json.dumps(
            {
                "agents": {
                    "defaults": {
                        "workspace": str(folder / "workspace"),
                        "model": "fake-large",
                        "provider": "custom",
                    }
                },
                "providers": {"custom": {"apiKey": "none", "apiBase": model.url}},
                "api": {"host": "127.0.0.1", "port": port},
            }
        )
    )
    with (folder / "log").open("wb") as log:
        process = await trio.lowlevel.open_process(
            [program, "serve", "--config", str(config)],
            stdout=log,
            stderr=log,
            env=environment(folder / "home") | {"HOME": str(folder)},
        )
    try:
        while not await _answers(port):
            if process.poll() is not None:
                raise RuntimeError(f"it ended: {(folder / 'log').read_text()[-1_000:]}")
            await trio.sleep(_POLL_S)
        return await _talk(process.pid, port, model, clients, max(1, turns // clients))
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def _talk(pid: int, port: int, model: Model, clients: int, turns: int) -> Figures:
    waits: list[float] = []

    async def take(number: int, count: int) -> None:
        dice = random.Random(number)
        connect = partial(trio.open_tcp_stream, "127.0.0.1", port)
        client = Client(await connect(), connect)
        try:
            for _ in range(count):
                said = {"role": "user", "content": f"What do you think of {dice.random()}?"}
                begin = time.perf_counter()
                await client.call("POST", "/v1/chat/completions", {"messages": [said], "session_id": f"c{number}"})
                waits.append(time.perf_counter() - begin)
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()

    async def everybody(count: int) -> None:
        waits.clear()
        async with trio.open_nursery() as nursery:
            for number in range(clients):
                nursery.start_soon(take, number, count)

    await everybody(_WARM_UP)
    cpu_ms, (calls, sent) = process_cpu_ms(pid), await model.sent()
    begin = trio.current_time()
    await everybody(turns)
    took_s = trio.current_time() - begin
    await trio.sleep(1)
    every, (calls_then, sent_then) = clients * turns, await model.sent()
    return {
        "turns_s": every / took_s,
        "p50_ms": 1_000 * (median(waits) or 0.0),
        "p99_ms": 1_000 * (percentile(waits, 99) or 0.0),
        "cpu_ms_per_turn": (process_cpu_ms(pid) - cpu_ms) / every,
        "rss_mb": rss_kib(pid) / 1_024,
        "calls_per_turn": (calls_then - calls) / every,
        "model_bytes_per_turn": (sent_then - sent) / every,
    }


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        number: int = held.getsockname()[1]
        return number


async def _answers(port: int) -> bool:
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return False
    async with stream:
        await Client(stream).call("GET", "/health")
    return True
