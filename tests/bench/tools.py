"""What tools cost beside doing the same without us, and whether a fork bomb in the shell slows the daemon down.

A command beside bare bubblewrap and a bare process; a page beside a bare GET by the same client; a file of a workspace
beside a plain open; a tool of an MCP server beside the same server asked over its pipes; the tokens of all tools beside
those that a prompt shows. Each pair is timed in turn, call by call. Then a daemon in a process of its own answers
messages: calm, and while a command forks as fast as it can.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import trio
from msgspec.structs import replace

from daycare.agent import tokens
from daycare.base.clock import SystemClock
from daycare.base.workspace import Access, ShellSection
from daycare.features.shell.running import ShellRun
from daycare.features.shell.sandbox import program, why_not
from daycare.features.workspaces.folder import WorkspaceFolder, mark_of
from daycare.public_network import PublicNetwork
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.daemon_process import DaemonProcess, ThrowawayHome, client_of
from daycare_plugins.web import fetching
from daycare_plugins.web.reading import text_of
from tests.mcp.house import STUB, Stub, tool

from .measure import median, median_ratio, percentile, rounded, say, scratch

_PAGE: Final = (
    b"<html><body><h1>Tea</h1>" + b"<p>Tea is <a href='/leaf'>leaves</a> in water.</p>" * 100 + b"</body></html>"
)
_FILE: Final = b"a line of a file of twenty-nine\n" * 300
_BARE: Final = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
_BOMB: Final = r"""python3 -c "exec('import os\nwhile 1:\n try: os.fork()\n except OSError: pass')" """  # sh gives up
_CALM, _BOMBED = "/me/direct", "/me/agent/bomb"
_SERVER_S: Final = 60.0  # until a server has said what it has
_GROWN_S: Final = 1.0  # until a bomb has as many processes as it may
_CONFIG: Final = """\
[models]
default = "ready/ready"

[providers.ready]
kind = "ready"

[plugins]
load = ["tests.bench.tools_mind:plugin"]

[shell]
enabled = true
seconds = 110
"""
Step = Callable[[], Awaitable[object]]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--calls", type=int, default=30, help="calls of each kind, per round")
    parser.add_argument("--seconds", type=float, default=6.0, help="of messages, calm and under a fork bomb, per round")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds. Times are medians in milliseconds; without a sandbox those of the shell are None."""
    able = not why_not()[0]
    calls, messages = [], []
    for number in range(args.rounds):
        with scratch(args.dir.resolve()) as folder:
            calls.append(trio.run(_calls, folder, args.calls, able))
        with scratch(args.dir.resolve()) as folder:
            messages.append(trio.run(_bombed, folder, args.seconds) if able else {})
        say(f"round {number + 1}: {calls[-1]} {messages[-1]}")
    found: dict[str, Any] = {name: rounded(median([one.get(name) for one in calls])) for name in calls[0]}
    for name in messages[0]:
        found[name] = rounded(median([one[name] for one in messages]))
    for name in ("accepted", "answered"):
        top, bottom = ([one.get(f"{name}_p99_{when}_ms") for one in messages] for when in ("bombed", "calm"))
        found[f"{name}_p99_bombed_vs_calm"] = rounded(median_ratio(top, bottom))
    return found


# -- single calls ------------------------------------------------------------------------------------------------------


async def _calls(folder: Path, count: int, able: bool) -> dict[str, float | None]:
    house_of = open_daemon(folder, location="daycare.db", clock=SystemClock(), inline=False)
    with _served(Stub(folder / "stub", tool("echo"))) as (stub, bare):
        async with house_of as house, _site() as url:
            steps = await _steps(house, folder, url, able)
            if find_spec("mcp") is not None:
                steps |= {"mcp": await _of_server(house, stub, sandbox=able), "bare_mcp": bare}
            return await _timed(house, steps, count)


async def _timed(house: TestDaemon, steps: dict[str, Step], count: int) -> dict[str, float | None]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(count + 1):
        for name, step in steps.items():
            begin = time.perf_counter()
            await step()
            if number:  # the first imports
                times[name].append((time.perf_counter() - begin) * 1000)
    return {f"{name}_ms": median(values) for name, values in times.items()} | await _prompt(house)


async def _steps(house: TestDaemon, folder: Path, url: str, able: bool) -> dict[str, Step]:
    agent = await house.agent("/ann/direct")
    config = replace(agent.config, workspace="notes", access=Access.FULL)
    agent = await house.store.agents.configure(agent.id, config)
    workspaces = house.daemon.workspaces.workspaces
    place = WorkspaceFolder(folder, "shell", make=True)
    fetcher = fetching.WebFetcher(PublicNetwork([ip_network("127.0.0.1/32")]))
    plain = folder / "plain"
    written = 0

    async def write() -> None:
        nonlocal written
        before = await workspaces.read_if_there(agent, "note")
        written += 1
        data = _FILE + b"%d" % written
        await workspaces.change(agent, "note", data, expected=mark_of(before), key=f"bench:{written}", origins=())

    async def read() -> None:
        await workspaces.read(agent, "note")

    async def plain_write() -> None:
        plain.write_bytes(_FILE)

    async def synced_write() -> None:
        with plain.open("wb") as file:
            file.write(_FILE)
            file.flush()
            os.fsync(file.fileno())

    async def plain_read() -> None:
        plain.read_bytes()

    async def bare_get() -> None:
        parts = urlsplit(url)
        async with await trio.open_tcp_stream("127.0.0.1", parts.port or 0) as stream:
            await fetching._asked(stream, parts)

    async def page() -> None:
        await text_of(await fetcher.fetch(url))

    steps: dict[str, Step] = {
        "file_write": write,
        "synced_write": synced_write,
        "plain_write": plain_write,
        "file_read": read,
        "plain_read": plain_read,
        "fetch": partial(fetcher.fetch, url),
        "bare_get": bare_get,
        "page_as_text": page,
    }
    if able:
        shell = ShellRun("true", place, ShellSection(enabled=True), SystemClock(), lambda _: None)
        steps["shell"] = partial(trio.to_thread.run_sync, shell.run)
        steps["bare_bwrap"] = partial(_process, program(), *_BARE, "/bin/sh", "-c", "true")
        steps["bare_process"] = partial(_process, "/bin/sh", "-c", "true")
    return steps


async def _of_server(house: TestDaemon, stub: Stub, *, sandbox: bool) -> Step:
    """Let the house have the server, and return what calls its tool."""
    live, servers = house.daemon.live, house.daemon.mcp.servers
    live.take(replace(live.now, mcp={"stub": stub.settings(sandbox=sandbox)}))
    with trio.fail_after(_SERVER_S):
        while not any(each.waiting for each in servers.shown()):
            await trio.sleep(0.05)
    found = await servers.tools("stub")
    [pinned] = await servers.approve("stub", {"echo": found[0].now.digest}, "bench")
    return partial(servers.call, pinned, {"text": "hi"})


@contextmanager
def _served(stub: Stub) -> Iterator[tuple[Stub, Step]]:
    """Run the same server with nothing between; give what calls its tool."""
    command = (sys.executable, str(STUB), str(stub.folder))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None and process.stdout is not None
        given, taken = process.stdin, process.stdout
        asked = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": "hi"}},
        }

        async def call() -> None:
            given.write(json.dumps(asked).encode() + b"\n")
            taken.readline()

        yield stub, call
        given.close()


async def _process(*command: str) -> None:
    await trio.to_thread.run_sync(partial(subprocess.run, command, check=True))


async def _prompt(house: TestDaemon) -> dict[str, float | None]:
    """Return the tokens of tools in a prompt: all that an agent may use, and those that it is shown."""
    found: dict[str, float | None] = {}
    for path, name in (("/ann/agent/plain", "tools"), ("/ann/direct", "tools_with_workspace")):
        agent = await house.agent(path)
        await house.hear(await house.say("hello", key="hello", path=path))
        found[f"tokens_of_all_{name}"] = tokens.of_tools(house.daemon.catalogue.specs(agent))
        found[f"tokens_of_shown_{name}"] = tokens.of_tools(house.model.history[-1].tools)
    return found


@asynccontextmanager
async def _site() -> AsyncIterator[str]:
    """Serve one page at a port from which pages may be fetched."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(_PAGE) + _PAGE

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head and (more := await stream.receive_some()):
                head += more
            if head.startswith(b"GET "):  # https is tried first
                await stream.send_all(answer)

    ports = fetching._OTHER_PORTS
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        fetching._OTHER_PORTS = frozenset({port})  # type: ignore[misc]
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            fetching._OTHER_PORTS = ports  # type: ignore[misc]
            nursery.cancel_scope.cancel()


# -- messages meanwhile ------------------------------------------------------------------------------------------------


async def _bombed(folder: Path, seconds: float) -> dict[str, float | None]:
    home = ThrowawayHome(folder, _CONFIG, {"PYTHONPATH": os.environ.get("PYTHONPATH", str(Path.cwd()))})
    process = DaemonProcess(home)
    try:
        await process.ready()
        async with client_of(home.socket) as client:
            (await client.post("/v1/agents", json={"path": _BOMBED})).raise_for_status()
            body = {"workspace": "bomb", "access": "full"}
            (await client.patch("/v1/agent", params={"path": _BOMBED}, json=body)).raise_for_status()
            await _talk(home, 1.0)
            calm = await _talk(home, seconds)
            before = _processes()
            order = {"path": _BOMBED, "text": f"run {_BOMB}", "key": "bomb"}
            (await client.post("/v1/messages", json=order)).raise_for_status()
            await trio.sleep(_GROWN_S)
            grown = _processes() - before
            bombed = await _talk(home, seconds)
            still = _processes() - before
            (await client.post("/v1/stop", json={"path": _BOMBED})).raise_for_status()
    finally:
        with trio.CancelScope(shield=True):
            await process.kill()
    found = {f"{name}_calm_ms": value for name, value in calm.items()}
    found |= {f"{name}_bombed_ms": value for name, value in bombed.items()}
    return found | {"bomb_processes": float(min(grown, still))}


async def _talk(home: ThrowawayHome, seconds: float) -> dict[str, float | None]:
    """Send messages, one after the other, each accepted alone or answered; return percentiles."""
    times: dict[bool, list[float]] = {False: [], True: []}
    ends = time.perf_counter() + seconds
    async with client_of(home.socket) as client:
        while (begin := time.perf_counter()) < ends:
            waits = len(times[True]) <= len(times[False])
            body = {"path": _CALM, "text": "hello", "key": f"{begin}"} | ({"wait_s": 30} if waits else {})
            (await client.post("/v1/messages", json=body)).raise_for_status()
            times[waits].append((time.perf_counter() - begin) * 1000)
    return {
        f"{name}_{which}": percentile(times[waits], percent)
        for waits, name in ((False, "accepted"), (True, "answered"))
        for which, percent in (("p50", 50), ("p99", 99))
    }


def _processes() -> int:
    return sum(each.name.isdecimal() for each in Path("/proc").iterdir())
