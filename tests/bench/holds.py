"""What holds the event loop of a daemon after it is ready: each thing for the first time, and then again.

A daemon with 1,000 memories of each of 16 people, the dashboard and a Telegram bot, watched as in `turn` (see
`turn_holds`). Each thing is done once, and once more: what only the first time takes is read or imported then.

    first, again    for each thing: the longest that a task worked while it was done and within a second of it, in
                    milliseconds of processor time of the loop's thread
    imported        modules that the loop's thread imported meanwhile: everybody else waited for it
    holds           what took more than 5 ms, by its cause, with how often it was and the longest
"""

import argparse
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import trio

from tests.network.conftest import free_port

from . import turn_holds, turn_home, turn_servers
from .measure import median, rounded, say, scratch
from .turn_counted import HOLD_CPU_US
from .turn_daemon import Client, Daemon, daemon
from .turn_home import Variant

Thing = Callable[[], Awaitable[object]]

_ALWAYS: Final = ("start", "login")
_TEMPLATE: Final = "template"
_PAGES: Final = ("/", "/approvals", "/memory?query=cat", "/work", "/system")
_MORE: Final = """
[plugins.telegram]
base_url = "{base_url}"
base_file_url = "{base_file_url}"
poll_s = 5

[api]
listen = "127.0.0.1:{port}"
"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", nargs="+", help="only these things")
    parser.add_argument("--memories", type=int, default=1_000, help="of each person")
    parser.add_argument("--after", type=float, default=1.0, help="seconds in which what follows a thing is over")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Do everything in each round; return the medians of the longest steps, and the causes of long ones."""
    rounds: list[dict[str, list[float]]] = []
    held = _Held()
    with scratch(args.dir.resolve()) as folder:
        turn_home.build(folder / _TEMPLATE, Variant(memories=args.memories))
        for number in range(args.rounds):
            rounds.append(trio.run(_round, folder, args, held))
            say(f"round {number + 1}: {rounds[-1]}")
    return {
        "first": {name: rounded(median([each[name][0] for each in rounds])) for name in rounds[0]},
        "again": {name: rounded(median([each[name][1] for each in rounds])) for name in rounds[0]},
        "imported": {name: [*dict.fromkeys(each)] for name, each in held.imported.items() if each},
        "holds": {name: turn_holds.causes(each) for name, each in held.holds.items() if each},
    }


class _Held:
    """What held the loop in all rounds, by what was done."""

    def __init__(self) -> None:
        self.holds: dict[str, list[turn_holds.LoopHold]] = {}
        self.imported: dict[str, list[str]] = {}


async def _round(folder: Path, args: argparse.Namespace, held: _Held) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    async with AsyncExitStack() as opened:
        model = await opened.enter_async_context(turn_servers.model())
        telegram = await opened.enter_async_context(turn_servers.telegram(1, 1))
        home, port = Path(opened.enter_context(scratch(folder))) / "h", free_port()
        more = _MORE.format(**vars(telegram), port=port)
        variant = Variant(memories=args.memories)
        turn_home.furnish(home, folder / _TEMPLATE, variant, model.url, more)
        it = await opened.enter_async_context(daemon(home, args.deadline, counts=True))
        client = await opened.enter_async_context(it.client())
        things = _Things(home, client, variant.texts(0), port, telegram)
        for name, do in things.all().items():
            if args.only is None or name in {*args.only, *_ALWAYS}:
                for which in (name, f"{name}, again"):
                    holds, imports = len(turn_holds.read(it.holds)), len(it.imported())
                    found.setdefault(name, []).append(await _longest(it, do, args.after))
                    held.holds.setdefault(which, []).extend(turn_holds.read(it.holds)[holds:])
                    held.imported.setdefault(which, []).extend(it.imported()[imports:])
    return found


async def _longest(it: Daemon, do: Thing, after_s: float) -> float:
    """Do something; return the longest step in milliseconds of processor time."""
    assert it.counters is not None
    await do()
    await trio.sleep(after_s)
    took = it.counters.values[HOLD_CPU_US] / 1_000
    it.counters.reset()
    return took


class _Things:
    """What is done."""

    def __init__(
        self, home: Path, client: Client, texts: Sequence[str], port: int, telegram: turn_servers.Telegram
    ) -> None:
        self._home = home
        self._client = client
        self._texts = texts
        self._port = port
        self._telegram = telegram
        self._number = 0
        self._token = ""

    def all(self) -> dict[str, Thing]:
        """Return everything, in order."""
        return {
            "start": self.nothing,
            "message": self.message,
            "recall": self.recall,
            "tool": self.tool,
            "approval": self.approval,
            "telegram": self.telegram,
            "reload": self.reload,
            "cron": self.cron,
            "command": self.command,
            "login": self.login,
            **{
                f"page {path}": self.page(path) for path in ("/", "/approvals", "/memory?query=cat", "/work", "/system")
            },
            "status": self.status,
        }

    async def nothing(self) -> None:
        """Let what follows a start be over."""
        await trio.sleep(3)

    async def message(self) -> None:
        """Say a word for which nothing is looked up."""
        await self._say("hello")

    async def recall(self) -> None:
        """Ask for something that was said."""
        self._number += 1
        await self._say(self._texts[self._number])

    async def tool(self) -> None:
        """Let a tool be called."""
        await self._use("now")

    async def approval(self) -> None:
        """Let an agent ask to change a document, and say yes."""
        self._number += 1
        await self._use("memory_write", path=f"knowledge/n{self._number}.md", text="The cat eats.", reason="asked")
        found = (await self._client.call("GET", "/v1/approvals?limit=1"))["approvals"][0]
        seen = {"verdict": "approve", "seen": found["content_hash"], "user": "u0"}
        await self._client.call("POST", f"/v1/approvals/{found['no']}/decide", seen)

    async def telegram(self) -> None:
        """Connect the bot, and let a person write to it."""
        await self._client.call("PUT", "/v1/keys/telegram", {"value": self._telegram.token})
        await self._telegram.drive()

    async def reload(self) -> None:
        """Let the daemon read a changed config.toml."""
        config = self._home / "config.toml"
        self._number += 1
        config.write_text(f"{config.read_text()}\n# {self._number}\n")
        await self._client.call("POST", "/v1/config/reload")

    async def cron(self) -> None:
        """Add a job and let it run."""
        self._number += 1
        name = f"job{self._number}"
        spec = {"cron": "0 8 * * *", "prompt": "is there anything to do?"}
        added = await self._client.call("POST", "/v1/cron", {"id": name, "spec": spec, "user": "u0"})
        await self._client.call("POST", f"/v1/cron/run?path={added['path']}", {})

    async def command(self) -> None:
        """Send a chat command."""
        await self._say("/status")

    async def login(self) -> None:
        """Make a token for the dashboard."""
        self._number += 1
        made = await self._client.call("POST", "/v1/tokens", {"name": f"t{self._number}", "may": "operator"})
        self._token = made["token"]

    async def status(self) -> None:
        """Ask how the daemon is."""
        await self._client.call("GET", "/v1/status")

    def page(self, path: str) -> Thing:
        """Return what looks at a page of the dashboard."""

        async def look() -> None:
            async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream:
                head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nConnection: close\r\n"
                await stream.send_all(f"{head}Authorization: Bearer {self._token}\r\n\r\n".encode())
                whole = b"".join([part async for part in stream])
            if not whole.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"{path}: {whole[:300]!r}")

        return look

    async def _use(self, tool: str, **arguments: object) -> None:
        await self._say(f"use {tool} {json.dumps(arguments)} please")

    async def _say(self, text: str) -> None:
        found = await self._client.call("POST", "/v1/messages", {"user": "u0", "text": text, "wait_s": 60})
        if found["state"] != "done":
            raise RuntimeError(f"a message was not answered: {found}")
