"""Answers of plugins: a provider, tools, a connector, hooks, an app, a command and an embedder that return anything."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import trio

from daycare.agent.sending import DELIVERY_ATTEMPTS_MAX
from daycare.base import errors
from daycare.base.connector import BaseConnector, Capabilities, Health, Outgoing, RemoteFile, Unreadable
from daycare.base.messages import Choice, File, Message, Text, Thinking, ToolCall, ToolResult, Usage
from daycare.plugin import ChatCommand, Completion, HookSet, Inbound, InferRequest, Plugin, StructTool, Waiting
from daycare.store.records import AgentConfig
from daycare.testing.daemon import TestDaemon
from tests.hostile import texts, values
from tests.hostile.stage import PEOPLE, STILL_THERE, Streaming, at_once, count, opened, said
from tests.hostile.trial import Prepared, Trial

NAME: Final = "liar"
_NUMBER: Final = re.compile(r"#(\d+)#")
_STRANGE: Final[tuple[Any, ...]] = (
    float("nan"),
    float("inf"),
    float("-inf"),
    -1.0,
    0.0,
    1e300,
    10**30,
    -(10**30),
    None,
    "soon",
    True,
    [],
    5,
)


class Plugins(Prepared):
    """See the module. What is said names its number, and whoever is asked about it lies as is drawn for that number."""

    name = "plugins"
    chunk = 120
    virtual = True

    async def play(self, trial: Trial, folder: Path) -> None:
        """Ask for each: over the lying connector, of the lying app, or a lying tool, command or model."""
        liar = Liar(trial)
        async with opened(
            trial, folder, Streaming(liar.completion), plugins=[liar.plugin()], prepare=_prepare
        ) as house:
            liar.house = house
            with trio.fail_after(60.0):
                while liar.context is None:
                    await trio.sleep(0.1)

            async def one(number: int) -> None:
                rng = trial.draw(number)
                user = PEOPLE[2 * (number % (len(PEOPLE) // 2))]
                way = rng.choice(
                    ("model", "model", "tool", "tool", "app", "command", "connector", "connector", "receive")
                )
                if way == "receive":
                    await liar.receives(number, rng)
                    return
                inbound = Inbound(
                    connector=NAME if way == "connector" else "direct",
                    sender=f"{NAME if way == 'connector' else 'direct'}:{user}",
                    key=f"l:{number}",
                    text=f"/{NAME} #{number}#" if way == "command" else f"{way} #{number}#",
                    path=f"/{user}/app/n{number}" if way == "app" else "",
                )
                if way == "app":  # one for each: an agent that fails again and again is parked
                    await house.agent(inbound.path, AgentConfig(behaviour=NAME))
                await said(house, trial, number, inbound)

            await at_once(trial.numbers, one, limit=24)
            liar.asked_all = True
            with trio.move_on_after((DELIVERY_ATTEMPTS_MAX + 1) * 86_400):  # a platform may ask for a day each time
                while count(house, "SELECT count(*) FROM outbox WHERE connector = ? AND state < 2", NAME):
                    await trio.sleep(600.0)
                return
            trial.harm("no end", "replies over a lying connector never ended")

    def shown(self, rng: Random) -> str:
        """It depends on who is asked."""
        return "a plugin's answer"


class Lie(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lie."""

    n: int = 0
    about: str = ""


class Liar(BaseConnector):
    """All that a plugin can bring, and none of it true."""

    name = NAME
    pull = False
    description = "lies"
    house: TestDaemon

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.context: Any = None
        self.asked_all = False  # then the model tells the truth, or its outages would be the next message's, too
        self._tries: Counter[str] = Counter()

    def plugin(self) -> Plugin:
        """Return it."""
        hooks = HookSet(
            message_before=self._before, message_after=self._after, turn_end=self._after, session_end=self._after
        )
        return Plugin(
            name=NAME,
            tools=[StructTool("lie", Lie, self.run, idempotent=True)],
            behaviours=[self],
            connectors={NAME: lambda: self},
            commands={NAME: ChatCommand("lies", self._command)},
            hooks=hooks,
            start=self._start,
            health=self._health,
        )

    def _rng(self, text: str) -> Random:
        found = _NUMBER.search(text)
        return self._trial.draw(int(found[1]) + 10**9 if found else 10**9 - 1)

    # == a model =======================================================================================================

    def completion(self, request: InferRequest) -> Completion:
        """Return anything that a provider may return."""
        last = request.messages[-1].text
        if self.asked_all or any(STILL_THERE in message.text for message in request.messages[-2:]):
            return Completion(message=Message("assistant", (Text("It is late."),)), finish="stop", usage=Usage(1, 1))
        rng = self._rng(last)
        if last.startswith("tool") or ("] tool" in last):
            return Completion(
                message=Message("assistant", (ToolCall("c1", "lie", {"n": 1, "about": last}),)), finish="tools"
            )
        if rng.random() < 0.15:
            raise error(rng)
        parts = tuple(_part(rng) for _ in range(rng.choice((0, 1, 1, 2, 5))))
        wrong: Any = Usage
        usage = (
            wrong(*(rng.choice((0, -1, 10**18, 2**63, 1.5, None, "x")) for _ in range(4)))
            if rng.random() < 0.3
            else Usage()
        )
        finish: Any = rng.choice(("stop", "stop", "stop", "tools", "length", "refused", "because", None, 7))
        role: Any = rng.choice(("assistant",) * 8 + ("user", "tool", "x"))
        return Completion(message=Message(role, parts), finish=finish, usage=usage, model=anything(rng, 0.1, "model"))

    # == a tool ========================================================================================================

    async def run(self, context: Any, arguments: Lie) -> Any:
        """Return anything that a tool may return."""
        rng = self._rng(arguments.about)
        await _delayed(rng)
        return result(rng)

    # == an app ========================================================================================================

    async def act(self, context: Any, messages: Sequence[Any]) -> Any:
        """Return anything that a behaviour may return, and keep anything as state."""
        rng = self._rng(messages[0].text)
        if rng.random() < 0.5:
            context.state = anything(rng, 0.9, {})
        if rng.random() < 0.2:
            context.offer([Choice(anything(rng, 0.5, "a"), anything(rng, 0.5, "b"))] * rng.choice((1, 100)))
        if rng.random() < 0.2:
            context.remind(rng.choice(_STRANGE), anything(rng, 0.7, "x"))
        if rng.random() < 0.1:
            await context.send(anything(rng, 0.5, "/p0/direct"), anything(rng, 0.5, "x"))
        await _delayed(rng)
        return result(rng)

    # == a command, hooks ==============================================================================================

    async def _command(self, context: Any, path: str, user: str, rest: str) -> Any:
        return result(self._rng(rest))

    async def _before(self, context: Any, what: Any) -> Any:
        rng = self._rng(what.messages[-1].text)
        if rng.random() < 0.6:
            return []
        found = result(rng)
        return [found] if rng.random() < 0.7 else found

    async def _after(self, context: Any, what: Any) -> Any:
        return result(self._rng(getattr(what, "reply", "") or ""))

    # == a connector ===================================================================================================

    def capabilities(self, target: str) -> Any:
        """Return what is right, so that all of it is asked."""
        return Capabilities(
            typing_s=5.0, drafts=True, edits=True, withdrawals=True, reactions=True, choices=True, files=True
        )

    def split(self, outgoing: Outgoing) -> Any:
        """Return anything in place of parts."""
        rng = self._rng(outgoing.text + f"#{outgoing.outbox}#")
        if rng.random() < 0.8:
            return (outgoing,)
        if rng.random() < 0.3:
            raise error(rng)
        return rng.choice(
            ((), [], None, [None], [outgoing] * 20, "parts", iter([outgoing]), {1: outgoing}, 7, [outgoing, None])
        )

    def delay_s(self, target: str) -> Any:
        """Return anything in place of seconds, seldom."""
        rng = self._trial.draw(hash(trio.current_time()) % 10**6)
        return 0.0 if rng.random() < 0.9 else rng.choice(_STRANGE)

    async def send(self, outgoing: Outgoing) -> Any:
        """Return anything in place of a receipt, something else in each try; the third tells the truth."""
        self._tries[outgoing.key] += 1
        rng = self._rng(f"#{outgoing.outbox * 10 + self._tries[outgoing.key]}#")
        await _delayed(rng)
        return result(rng) if self._tries[outgoing.key] < 3 else "receipt"

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Raise or return anything."""
        result(self._rng(text))

    async def draft(self, target: str, number: int, text: str) -> None:
        """Raise or return anything."""
        result(self._rng(text))

    async def status(self, target: str, text: str) -> Any:
        """Return anything in place of a receipt."""
        return result(self._rng(text))

    async def fetch(self, reference: str, max_bytes: int) -> Any:
        """Return anything in place of bytes."""
        return result(self._rng(reference))

    def identity(self) -> Any:
        """Return anything."""
        return None

    async def _start(self, context: Any) -> None:
        self.context = context
        await trio.sleep_forever()

    async def _health(self, context: Any) -> Any:
        return result(self._trial.draw(0))

    async def receives(self, number: int, rng: Random) -> None:
        """Say over the connector what no person says; whatever raises here is the plugin's to bear."""
        items: list[Any] = [_item(rng, number, at) for at in range(rng.choice((1, 1, 2, 10)))]
        try:
            if rng.random() < 0.2:
                self.context.report(NAME, Health(state=anything(rng, 0.5, "up"), reason=anything(rng, 0.7, "")))
            if rng.random() < 0.1:
                await self.context.remember(NAME, anything(rng, 0.5, "x"), anything(rng, 0.5, "x"))
            if rng.random() < 0.1:
                await self.context.moved(NAME, anything(rng, 0.3, f"{NAME}:p1"), anything(rng, 0.3, f"{NAME}:p1b"))
            outcomes = await self.context.receive(NAME, items, anything(rng, 0.2, ""))
        except errors.DaycareError:
            self._trial.end(number, "refused")
            return
        except (TypeError, ValueError, AttributeError, OverflowError, UnicodeError) as defect:
            self._trial.harm("raised", f"receive: {type(defect).__name__}: {defect}", number)
            return
        for each in outcomes:
            if each.seq:
                try:
                    await self.house.daemon.router.wait(await _receipt(self.house, each.seq), 2 * 86_400.0)
                    self._trial.end(number, "answered")
                except errors.ConflictError:
                    self._trial.end(number, "dead")
            else:
                self._trial.end(number, "refused")


async def _receipt(house: TestDaemon, seq: int) -> Any:
    return await house.store.inbox.receipt(seq)


def _item(rng: Random, number: int, at: int) -> Any:
    if rng.random() < 0.1:
        return Unreadable(
            key=anything(rng, 0.2, f"u:{number}:{at}"), reason=anything(rng, 0.4, "x"), body=anything(rng, 0.4, "x")
        )
    user = rng.choice(PEOPLE)
    fields: dict[str, Any] = {
        "connector": NAME,
        "sender": f"{NAME}:{user}",
        "key": f"r:{number}:{at}",
        "text": f"#{number}# {texts.short(rng)}",
        "name": "Ann",
        "chat_name": "",
        "edits": "",
        "album": "",
        "context": "",
        "message": "1",
        "replies_to": "",
        "at_ms": 0,
        "files": (RemoteFile(name="a", reference="r", key="k", size=1),) if rng.random() < 0.2 else (),
    }
    for name in list(fields):
        if rng.random() < 0.12:
            fields[name] = anything(rng, 1.0, None)
    if rng.random() < 0.2 and fields["files"]:
        wrong: dict[str, Any] = {
            "name": "a",
            "reference": "r",
            "key": "k",
            "size": 1,
            rng.choice(("name", "size", "key")): anything(rng, 1.0, 1),
        }
        fields["files"] = (RemoteFile(**wrong),)
    return Inbound(**fields)


async def _prepare(house: TestDaemon) -> None:
    for name in PEOPLE:
        await house.store.people.link(f"{NAME}:{name}", name)


async def _delayed(rng: Random) -> None:
    if rng.random() < 0.1:
        await trio.sleep(rng.choice((0.1, 5.0, 200.0)))


def anything(rng: Random, share: float, right: Any) -> Any:
    """Return anything in so many of all cases, else what is right."""
    if rng.random() >= share:
        return right
    choice = rng.random()
    if choice < 0.3:
        return texts.short(rng) + rng.choice(("", *texts.LONE))
    if choice < 0.5:
        return rng.choice(_STRANGE)
    return values.value(rng)


def result(rng: Random) -> Any:
    """Return anything, or raise it."""
    choice = rng.random()
    if choice < 0.25:
        raise error(rng)
    if choice < 0.5:
        return texts.text(rng)
    if choice < 0.65:
        return texts.short(rng) + rng.choice(texts.LONE)
    if choice < 0.7:
        return Waiting(key=anything(rng, 0.7, "k"), deadline_s=rng.choice(_STRANGE))
    return anything(rng, 1.0, None)


def error(rng: Random) -> Exception:
    """Return an error as a plugin may raise it."""
    words = texts.short(rng) + rng.choice(("", *texts.LONE))
    if rng.random() < 0.3:
        defects = (
            ValueError,
            KeyError,
            TypeError,
            RuntimeError,
            OSError,
            RecursionError,
            MemoryError,
            trio.TooSlowError,
            StopIteration,
            StopAsyncIteration,
            AssertionError,
            UnicodeError,
        )
        return rng.choice(defects)(words)
    kinds = (
        errors.BusyError,
        errors.AwayError,
        errors.UnavailableError,
        errors.InvalidError,
        errors.NotFoundError,
        errors.ForbiddenError,
        errors.ConflictError,
    )
    code: Any = rng.choice(("NOT_SENT", "X", "CONTEXT_OVERFLOW", "", texts.short(rng)))
    return rng.choice(kinds)(code, words, hint=texts.short(rng), retry_after_s=rng.choice(_STRANGE))


def _part(rng: Random) -> Any:
    choice = rng.random()
    if choice < 0.6:
        return Text(anything(rng, 0.6, texts.text(rng)))
    if choice < 0.75:
        return ToolCall(anything(rng, 0.3, "c1"), anything(rng, 0.3, "lie"), anything(rng, 0.3, {"n": 1}))
    if choice < 0.85:
        return Thinking(anything(rng, 0.3, "scripted"), anything(rng, 0.3, {}))
    if choice < 0.9:
        return File(id=rng.choice((1, -1, 2**63)), name="x", media_type="y", size=1)
    if choice < 0.95:
        return ToolResult(call_id="c1", name="lie", text=anything(rng, 0.5, "x"))
    return anything(rng, 1.0, None)
