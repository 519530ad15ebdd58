"""How soon the daemon answers after its command is given, how much memory it then has, how soon it stops.

A real process in a home of its own. It is ready when `GET /v1/status` on its Unix socket is answered with 200. The
first start, which creates the home and compiles the modules, is reported apart.

`import_s` is how long Python takes to import trio, msgspec, apsw and httpx, in the same rounds; `ready_vs_import` is
`ready_s` divided by that.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import trio

from . import population, product
from .measure import median, rounded, rss_kib, say, scratch, uss_kib
from .turn_daemon import environment

_POLL_S = 0.005
_REQUEST = b"GET /v1/status HTTP/1.1\r\nHost: daycare\r\nConnection: close\r\n\r\n"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--agents", type=int, default=0, help="agents that are there before the first start")
    parser.add_argument("--waiting", type=int, default=0, help="unread messages, spread over these agents")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return seconds and megabytes."""
    with scratch(args.dir.resolve()) as folder:
        home = folder / "home"
        home.mkdir(mode=0o700)
        if args.agents:
            population.build(product.database(home), args.agents, args.waiting)
        first = trio.run(_once, home, args.deadline)
        _imported(home)  # compiled from now on
        rounds = []
        for number in range(args.rounds):
            rounds.append(trio.run(_once, home, args.deadline) | {"import_s": _imported(home)})
            say(f"round {number + 1}: " + ", ".join(f"{name} {rounded(value)}" for name, value in rounds[-1].items()))
    result: dict[str, Any] = {name: rounded(median([one[name] for one in rounds])) for name in rounds[0]}
    result["ready_vs_import"] = rounded(result["ready_s"] / result["import_s"])
    return result | {"first_ready_s": rounded(first["ready_s"]), "agents": args.agents, "waiting": args.waiting}


async def _once(home: Path, deadline: float) -> dict[str, float]:
    with trio.fail_after(deadline):
        begin = time.perf_counter()
        process = await trio.lowlevel.open_process(
            product.start_command(home),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(home.parent),
        )
        try:
            while not await _answers(home):
                if process.poll() is not None:
                    raise RuntimeError(f"the daemon ended with status {process.returncode}:\n{await _stderr(process)}")
                await trio.sleep(_POLL_S)
            ready_s = time.perf_counter() - begin
            found = {"ready_s": ready_s, "rss_mb": rss_kib(process.pid) / 1024, "uss_mb": uss_kib(process.pid) / 1024}
            begin = time.perf_counter()
            process.terminate()
            await process.wait()
            return found | {"stop_s": time.perf_counter() - begin}
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def _answers(home: Path) -> bool:
    try:
        stream = await trio.open_unix_socket(str(product.control_socket(home)))
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    async with stream:
        await stream.send_all(_REQUEST)
        answer = await stream.receive_some(4096)
    return answer.startswith(b"HTTP/1.1 200")


async def _stderr(process: trio.Process) -> str:
    assert process.stderr is not None
    return (await process.stderr.receive_some(4000)).decode(errors="replace")


def _imported(home: Path) -> float:
    """Return the seconds that an interpreter takes with the libraries that everything stands on."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import trio, msgspec, apsw, httpx"], check=True, env=environment(home.parent)
    )
    return time.perf_counter() - begin
