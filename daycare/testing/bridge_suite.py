"""The conformance suite of bridges: what `daycare bridge test -- COMMAND` runs, and what it means when one fails.

It talks with the bridge as the daemon would, in a folder of its own, and needs no platform: a bridge that cannot reach
its own must say so and stay orderly. What cannot be seen without one is tried where the bridge has the capability
`echo`: with DAYCARE_BRIDGE_TEST in its environment it sends what it is given back as if that person had said it.
"""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory, TemporaryFile
from typing import BinaryIO, Final, TypeVar

import msgspec
import trio

from daycare.base import bridge
from daycare.base.bridge import Failed, Hello, Result, Said

START_S: Final = 20.0
ANSWER_S: Final = 15.0
STOP_S: Final = 5.0
LONG_BYTES: Final = 8 * 1024 * 1024  # a line that nobody has to keep
TEST: Final = "DAYCARE_BRIDGE_TEST"
WHO: Final = "daycare-test"

F = TypeVar("F", bound=bridge.FromBridge)


class Broken(Exception):  # noqa: N818 -- it is a finding
    """A promise that the bridge does not keep."""


class Skipped(Exception):  # noqa: N818
    """Something that cannot be seen with this bridge."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `ok`, `failed` or `skipped`, and why."""

    name: str
    state: str
    why: str = ""


class Talk:
    """One running bridge. What it says is kept until somebody looks for it."""

    def __init__(self, process: trio.Process, folder: Path, words: BinaryIO) -> None:
        self.process = process
        self.folder = folder
        self.words = words  # its standard error
        self.heard: list[bridge.FromBridge] = []
        self.odd: list[str] = []  # lines of standard output that are no frames
        self._news = trio.Event()
        self._number = 0
        self.ended = trio.Event()

    async def listen(self) -> None:
        """Read what it says until its end."""
        lines = bridge.Lines()
        assert self.process.stdout is not None
        while data := await self.process.stdout.receive_some(65_536):
            for line in lines.feed(bytes(data)):
                if line.strip():
                    self._take(line)
            if lines.too_long:
                self.odd.append(f"a line of more than {bridge.LINE_MAX_BYTES} bytes")
            self._wake()
        self.ended.set()
        self._wake()

    def _take(self, line: bytes) -> None:
        try:
            self.heard.append(bridge.from_bridge(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.odd.append(f"{error}: {line[:80]!r}")

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def tell(self, *frames: bridge.Frame) -> None:
        """Say something to it."""
        await self.raw(b"".join(bridge.encode(frame) for frame in frames))

    async def raw(self, data: bytes) -> None:
        """Say something that may be no frame."""
        assert self.process.stdin is not None
        try:
            with trio.fail_after(ANSWER_S):
                await self.process.stdin.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as gone:
            raise Broken("it ended, or closed its standard input") from gone
        except trio.TooSlowError as slow:
            raise Broken(f"it did not read its standard input for {ANSWER_S:g} s") from slow

    async def wait(self, kind: type[F], which: Callable[[F], bool], what: str, within_s: float = ANSWER_S) -> F:
        """Return the first thing of a kind that it has said or says."""
        with trio.move_on_after(within_s):
            while True:
                for frame in self.heard:
                    if isinstance(frame, kind) and which(frame):
                        return frame
                if self.ended.is_set():
                    raise await self._end(f"instead of {what}")
                await self._news.wait()
        raise Broken(f"it did not say {what} within {within_s:g} s")

    async def ask(self, make: Callable[[str], bridge.Request], within_s: float = ANSWER_S) -> Result | Failed:
        """Ask for something and return the answer."""
        self._number += 1
        frame = make(f"t{self._number}")
        await self.tell(frame)
        what = f"an answer to {type(frame).__name__.lower()}"
        # One of both: `wait` looks for a class, and both have an id.
        with trio.move_on_after(within_s):
            while True:
                for heard in self.heard:
                    if isinstance(heard, Result | Failed) and heard.id == frame.id:
                        return heard
                if self.ended.is_set():
                    raise await self._end(f"instead of {what}")
                await self._news.wait()
        raise Broken(f"it gave no {what} within {within_s:g} s")

    async def _end(self, instead: str) -> Broken:
        """Return how it ended, with its last words."""
        with trio.move_on_after(STOP_S):
            await self.process.wait()
        self.words.seek(max(0, self.words.seek(0, os.SEEK_END) - 2_000))
        last = self.words.read().decode(errors="replace").strip().splitlines()[-1:]
        return Broken(" ".join((f"it ended with {self.process.returncode} {instead}", *(f"({line})" for line in last))))

    async def ping(self) -> None:
        """Look whether it is there."""
        answer = await self.ask(lambda id_: bridge.Ping(id=id_))
        if isinstance(answer, Failed):
            raise Broken(f"it refused a ping: {answer.code}")

    async def gone(self, within_s: float = STOP_S) -> None:
        """Wait for its end."""
        with trio.move_on_after(within_s):
            await self.process.wait()
            return
        raise Broken(f"it did not end within {within_s:g} s")

    def kill(self) -> None:
        """Kill it, and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _absolute(word: str) -> str:
    """Return a word of a command as it is meant where it was typed: the bridge is started in a folder of its own."""
    return str(Path(word).absolute()) if Path(word).is_file() else word


class Suite:
    """Checks one command, each time in a fresh folder but where a check says otherwise."""

    def __init__(self, command: Sequence[str], told: Callable[[Check], None] = lambda check: None) -> None:
        self.checks: list[Check] = []
        self._command = [_absolute(command[0]) if "/" in command[0] else command[0], *map(_absolute, command[1:])]
        self._told = told
        self._able: tuple[str, ...] = ()

    async def run(self) -> bool:
        """Run all checks; return whether none failed."""
        for name, check in (
            ("says hello with a version it can speak", self._hello),
            ("answers pings, and says how its platform is", self._alive),
            ("survives garbage, unknown frames and a line of 8 MiB", self._garbage),
            ("says nothing but frames on standard output", self._clean),
            ("refuses what it cannot do, and stays", self._refuses),
            ("ends when it is asked to", self._stops),
            ("ends when nobody is there any more", self._alone),
            ("keeps its files to itself", self._private),
            ("brings what it is told, with stable ids", self._echoes),
            ("offers again what was not acknowledged, and nothing else", self._offers),
            ("keeps to the bound of what is not acknowledged", self._bound),
            ("sends nothing twice under one key, also after it was killed", self._once),
            ("carries files both ways", self._files),
            ("types, edits, deletes and reacts where it says so", self._shows),
        ):
            await self._check(name, check)
            if name.startswith("says hello") and self.checks[-1].state == "failed":
                break  # all others would say the same
        return all(check.state != "failed" for check in self.checks)

    async def _check(self, name: str, check: Callable[[], Awaitable[None]]) -> None:
        try:
            await check()
            found = Check(name, "ok")
        except Broken as broken:
            found = Check(name, "failed", str(broken))
        except Skipped as why:
            found = Check(name, "skipped", str(why))
        self.checks.append(found)
        self._told(found)

    # == a bridge to talk with =========================================================================================

    @asynccontextmanager
    async def _talk(self, folder: Path, room: int = 16) -> AsyncGenerator[Talk, None]:
        environment = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        with TemporaryFile() as words:
            try:
                process = await trio.lowlevel.open_process(
                    self._command,
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=words,
                    cwd=folder,
                    env={**environment, "HOME": str(folder), TEST: "1"},
                    start_new_session=True,
                )
            except OSError as error:
                raise Broken(f"it cannot be started: {error.strerror or error}") from error
            talk = Talk(process, folder, words)
            problem: Broken | Skipped | None = None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(talk.listen)
                try:
                    hello = await talk.wait(Hello, lambda frame: True, "hello", START_S)
                    self._able = hello.capabilities
                    await talk.tell(bridge.Welcome(version=bridge.VERSION, connector="test", unacknowledged_max=room))
                    yield talk
                except (Broken, Skipped) as found:
                    problem = found  # out of the nursery it would come in a group
                finally:
                    talk.kill()
                    with trio.CancelScope(shield=True):
                        await process.wait()
                    nursery.cancel_scope.cancel()
        if problem is not None:
            raise problem

    @asynccontextmanager
    async def _fresh(self, room: int = 16) -> AsyncGenerator[Talk, None]:
        with TemporaryDirectory(prefix="daycare-bridge-") as folder:
            async with self._talk(Path(folder), room) as talk:
                yield talk

    def _needs(self, *capabilities: str) -> None:
        for capability in capabilities:
            if capability not in self._able:
                raise Skipped(f"it does not have the capability {capability}")

    # == without a platform ============================================================================================

    async def _hello(self) -> None:
        async with self._fresh() as talk:
            first = talk.heard[0]
            if not isinstance(first, Hello):
                raise Broken("its first line was something else")
            if first.version != bridge.VERSION:
                raise Broken(f"it speaks version {first.version}, not {bridge.VERSION}")
            if not first.name.strip():
                raise Broken("it has no name")
            if not 0 <= first.typing_s <= 600:
                raise Broken(f"typing_s is {first.typing_s}")

    async def _alive(self) -> None:
        async with self._fresh() as talk:
            await talk.ping()
            state = await talk.wait(bridge.State, lambda frame: True, "a state")
            if state.state not in bridge.STATES:
                raise Broken(f"its state {state.state!r} is none of {', '.join(bridge.STATES)}")
            if state.state == bridge.UNREACHABLE and not state.reason:
                raise Broken("it is unreachable and does not say why")

    async def _garbage(self) -> None:
        async with self._fresh() as talk:
            await talk.raw(b'\xff\xfe not json\n\n[]\n{"type":"of a later version","id":"x"}\n{"type":"send"}\n')
            await talk.raw(b"[" * 100_000 + b"\n")
            for _ in range(LONG_BYTES // (1 << 20)):
                await talk.raw(b"x" * (1 << 20))
            await talk.raw(b"\n")
            await talk.ping()

    async def _clean(self) -> None:
        async with self._fresh() as talk:
            await talk.ping()
            await talk.tell(bridge.Stop())
            await talk.gone()
            if talk.odd:
                raise Broken(f"it said {talk.odd[0]} (a library that prints? send that to standard error)")

    async def _refuses(self) -> None:
        async with self._fresh() as talk:
            await talk.ask(lambda id_: bridge.Edit(id=id_, to=WHO, message="no such", text="x"))
            await talk.ask(lambda id_: bridge.Fetch(id=id_, reference="no such", max_bytes=10))
            await talk.ping()

    async def _stops(self) -> None:
        async with self._fresh() as talk:
            await talk.ping()
            await talk.tell(bridge.Stop())
            await talk.gone()
            if talk.process.returncode:
                raise Broken(f"it ended with {talk.process.returncode}, expected 0")

    async def _alone(self) -> None:
        async with self._fresh() as talk:
            await talk.ping()
            assert talk.process.stdin is not None
            await talk.process.stdin.aclose()
            await talk.gone()

    async def _private(self) -> None:
        async with self._fresh() as talk:
            await talk.ping()
            await talk.tell(bridge.Stop())
            await talk.gone()
            for file in talk.folder.rglob("*"):
                if file.is_file() and file.stat().st_mode & 0o077:
                    raise Broken(f"{file.name} can be read by others: mode {file.stat().st_mode & 0o777:o}")

    # == with the echo =================================================================================================

    async def _connected(self, talk: Talk) -> None:
        self._needs(bridge.ECHO)
        await talk.wait(bridge.State, lambda frame: frame.state == bridge.CONNECTED, "connected")

    async def _send(self, talk: Talk, key: str, text: str, mark: str = "") -> Result:
        answer = await talk.ask(lambda id_: bridge.Send(id=id_, key=key, to=WHO, text=text, mark=mark))
        if isinstance(answer, Failed):
            raise Broken(f"it did not send: {answer.code} {answer.message}")
        if not answer.receipt:
            raise Broken("it sent and gave no receipt")
        return answer

    async def _echo(self, talk: Talk, text: str) -> Said:
        return await talk.wait(Said, lambda frame: frame.text == text, f"the echo of {text!r}")

    async def _echoes(self) -> None:
        async with self._fresh() as talk:
            await self._connected(talk)
            said = []
            for number in range(3):
                await self._send(talk, f"k{number}", f"word {number} äöü 🙂")
                said.append(await self._echo(talk, f"word {number} äöü 🙂"))
            if len({one.id for one in said}) != 3 or not all(one.id for one in said):
                raise Broken("its ids are not all different")
            if any(one.sender != WHO for one in said):
                raise Broken(f"the sender is {said[0].sender!r}, expected {WHO!r}")

    async def _offers(self) -> None:
        with TemporaryDirectory(prefix="daycare-bridge-") as name:
            folder = Path(name)
            async with self._talk(folder) as talk:
                await self._connected(talk)
                await self._send(talk, "a", "acknowledged")
                await self._send(talk, "b", "not acknowledged")
                first, second = await self._echo(talk, "acknowledged"), await self._echo(talk, "not acknowledged")
                await talk.tell(bridge.Ack(ids=(first.id,)))
                await talk.ping()
                talk.kill()
                await talk.gone()
            async with self._talk(folder) as talk:
                again = await self._echo(talk, "not acknowledged")
                if again.id != second.id:
                    raise Broken(f"it offers it again with another id: {again.id!r}, was {second.id!r}")
                await talk.tell(bridge.Ack(ids=(again.id,)))
                await talk.ping()
                if any(isinstance(frame, Said) and frame.id == first.id for frame in talk.heard):
                    raise Broken("it offers again what was acknowledged")
            async with self._talk(folder) as talk:
                await talk.ping()
                if any(isinstance(frame, Said) for frame in talk.heard):
                    raise Broken("it offers again what was acknowledged")

    async def _bound(self) -> None:
        async with self._fresh(room=2) as talk:
            await self._connected(talk)
            for number in range(5):
                await self._send(talk, f"k{number}", f"bound {number}")
            await talk.ping()
            offered = [frame for frame in talk.heard if isinstance(frame, Said)]
            if len(offered) != 2:
                raise Broken(f"{len(offered)} were offered at a time, at most 2 were wanted")
            await talk.tell(bridge.Ack(ids=tuple(frame.id for frame in offered)))
            await self._echo(talk, "bound 3")

    async def _once(self) -> None:
        with TemporaryDirectory(prefix="daycare-bridge-") as name:
            folder = Path(name)
            async with self._talk(folder) as talk:
                await self._connected(talk)
                first = await self._send(talk, "same", "only once")
                second = await self._send(talk, "same", "only once", mark="(again)")
                await self._echo(talk, "only once")
                talk.kill()
                await talk.gone()
            async with self._talk(folder) as talk:
                third = await self._send(talk, "same", "only once", mark="(again)")
                await talk.ping()
                echoes = [frame for frame in talk.heard if isinstance(frame, Said)]
                if len(echoes) > 1:
                    raise Broken("it was sent again")
                if not first.receipt == second.receipt == third.receipt:
                    raise Broken("the receipt of one key changes")

    async def _files(self) -> None:
        self._needs(bridge.ECHO, bridge.FILES)
        async with self._fresh() as talk:
            await self._connected(talk)
            (talk.folder / "out").mkdir(exist_ok=True)
            (talk.folder / "out" / "a.txt").write_bytes(b"a file\n")
            file = bridge.FileAt(name="a.txt", media_type="text/plain", size=7, path="out/a.txt")
            answer = await talk.ask(lambda id_: bridge.Send(id=id_, key="f", to=WHO, files=(file,)))
            if isinstance(answer, Failed):
                raise Broken(f"it did not send a file: {answer.code} {answer.message}")
            said = await talk.wait(Said, lambda frame: bool(frame.files), "the echo of a file")
            path = said.files[0].path
            if not path or Path(path).is_absolute() or ".." in Path(path).parts:
                raise Broken(f"the path {path!r} does not lie in the folder")
            if (talk.folder / path).read_bytes() != b"a file\n":
                raise Broken("the file came back changed")
            await talk.tell(bridge.Ack(ids=(said.id,)))
            await talk.ping()
            if (talk.folder / path).exists():
                raise Broken("it keeps the file of what was acknowledged")

    async def _shows(self) -> None:
        self._needs(bridge.ECHO)
        async with self._fresh() as talk:
            await self._connected(talk)
            sent = await self._send(talk, "s", "shown")
            wishes: list[tuple[str, Callable[[str], bridge.Request]]] = [
                (bridge.TYPING, lambda id_: bridge.Typing(id=id_, to=WHO)),
                (bridge.EDITS, lambda id_: bridge.Edit(id=id_, to=WHO, message=sent.receipt, text="edited")),
                (bridge.REACTIONS, lambda id_: bridge.React(id=id_, to=WHO, message=sent.receipt, emoji="👍")),
                (bridge.DELETIONS, lambda id_: bridge.Delete(id=id_, to=WHO, message=sent.receipt)),
                (bridge.DELETIONS, lambda id_: bridge.Delete(id=id_, to=WHO, message=sent.receipt)),
            ]
            tried = [(capability, make) for capability, make in wishes if capability in self._able]
            if not tried:
                raise Skipped("it can do none of it")
            for capability, make in tried:
                answer = await talk.ask(make)
                if isinstance(answer, Failed):
                    raise Broken(f"{capability}: {answer.code} {answer.message}")
