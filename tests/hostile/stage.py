"""The daemon that is tried: all of it, with memory, curation, the log, the API's socket and a model that may lie."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import trio
from msgspec.structs import replace

from daycare.actors import failures
from daycare.base.errors import ConflictError, DaycareError, UnavailableError
from daycare.base.events import AgentParked, Event, LaneBroke, PartCrashed, RowSetAside
from daycare.base.limits import ATTEMPTS_MAX, OUTAGE_MAX_S
from daycare.base.memory_settings import IngestionSection, MemorySection
from daycare.config import Config, ModelsSection, PluginsSection, ProviderSection
from daycare.observe import log
from daycare.plugin import Inbound, InferRequest, Plugin, StreamEvent, TextDelta
from daycare.store.records import AgentConfig, Receipt, User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted
from tests.hostile.trial import Trial, leaves


class Streaming(Scripted):
    """A model that says its words in pieces, and long answers in large ones."""

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Answer."""
        await trio.lowlevel.checkpoint()
        completion = self.default(request)
        text = completion.message.text
        step = max(5, len(text) // 200)
        for start in range(0, len(text), step):
            yield TextDelta(text[start : start + step])
        yield completion


PEOPLE: Final = tuple(f"p{number}" for number in range(16))
STILL_THERE: Final = "what time is it?"  # asked of whoever may lie otherwise
# Of virtual time, for each answer: a turn waits for a day where no model answers, and one may ask for a day each time.
DEADLINE_S: Final = (ATTEMPTS_MAX + 2) * OUTAGE_MAX_S
HARM: Final = (LaneBroke, PartCrashed)
CONFIG: Final = Config(
    models=ModelsSection(default="scripted/model"),
    providers={"scripted": ProviderSection(kind="scripted"), "offline": ProviderSection(kind="offline")},
    memory=MemorySection(ingestion=IngestionSection(idle_minutes=1, every_turns=4)),
)


@asynccontextmanager
async def opened(
    trial: Trial,
    folder: Path,
    model: Scripted,
    *,
    plugins: Sequence[Plugin] = (),
    settings: dict[str, Any] | None = None,
    disable: tuple[str, ...] = (),
    prepare: Callable[[TestDaemon], Awaitable[object]] | None = None,
    level: str = "info",
) -> AsyncIterator[TestDaemon]:
    """Open a daemon with sixteen people; each second one is answered by rules, the others by `model`."""
    config = replace(CONFIG, plugins=PluginsSection(disable=disable, settings=settings or {}))
    virtual = trial.kind.virtual
    log.configure(level, folder / "daycare.log")
    # Nobody sets right what an imported agent lacks, so that it is given up after an hour instead of a week.
    with patch.object(failures, "SETUP_MAX_S", 3_600.0):
        async with open_daemon(
            folder,
            model,
            location="memory:" if virtual else str(folder / "daycare.db"),
            config=config,
            plugins=plugins,
            work=False,
            curates=True,
            inline=virtual,
        ) as house:
            house.daemon.reloading._watched.take()  # there is no file: its settings are not taken back after a while
            parked, unparked = trio.open_memory_channel[str](len(PEOPLE))
            _listen(house, trial, parked)
            _write_aside(house, trial)
            for number, name in enumerate(PEOPLE):
                await house.store.people.add(User(id=name, name=name.upper(), keys=(f"direct:{name}",)))
                if number % 2:
                    await house.agent(f"/{name}/direct", AgentConfig(model="offline/rules"))
            if prepare is not None:
                await prepare(house)
            async with trio.open_nursery() as nursery:
                started = trio.Event()
                nursery.start_soon(partial(house.daemon.run, started.set, work=True), name="daemon")
                nursery.start_soon(_unpark, house, unparked)
                await started.wait()
                yield house
                await still_there(house, trial)
                nursery.cancel_scope.cancel()


async def _unpark(house: TestDaemon, parked: trio.MemoryReceiveChannel[str]) -> None:
    """Do what the operator is asked to do when turns of one agent were given up again and again."""
    async for agent_id in parked:
        await house.store.agents.set_state(agent_id, "living")
        house.daemon.supervisor.posted(await house.store.inbox.waiting(agent_id, limit=1))


def _listen(house: TestDaemon, trial: Trial, parked: trio.MemorySendChannel[str]) -> None:
    """Hear of what broke in the daemon, under whatever load."""
    publish = house.daemon.bus.publish

    def heard(event: Event) -> None:
        if isinstance(event, RowSetAside):
            trial.set_aside += 1
        if isinstance(event, AgentParked):
            parked.send_nowait(event.agent_id)
        if isinstance(event, HARM):
            trial.harm(type(event).__name__, repr(event))
        publish(event)

    house.daemon.bus.publish = heard  # type: ignore[method-assign]


def _write_aside(house: TestDaemon, trial: Trial) -> None:
    """Count no commit against a step: on virtual time the loop's thread writes, else the store's own."""
    writer = house.store._writer
    write = writer._write_inline

    def aside(fn: Callable[..., Any], user: str = "") -> Any:
        with trial.watch.aside():
            return write(fn, user)

    writer._write_inline = aside  # type: ignore[method-assign]


async def still_there(house: TestDaemon, trial: Trial) -> None:
    """Look whether somebody else is still answered."""
    try:
        answer = await house.hear(await house.say(STILL_THERE), DEADLINE_S if trial.kind.virtual else 60.0)
        if not answer:
            trial.harm("deaf", "the next message was not answered")
    except DaycareError as error:
        trial.harm("deaf", f"the next message was not answered: {error}")


async def said(house: TestDaemon, trial: Trial, number: int, inbound: Inbound) -> Receipt | None:
    """Say something, and wait until it was answered, refused or given up."""
    try:
        receipt = await house.daemon.intake.accept(inbound)
    except DaycareError:
        trial.end(number, "refused")
        return None
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is what the campaign looks for
        trial.harm("raised", "\n".join(leaves(error)), number)
        return None
    await heard(house, trial, number, receipt)
    return receipt


async def heard(house: TestDaemon, trial: Trial, number: int, receipt: Receipt) -> None:
    """Wait for the end of something that was said."""
    try:
        await house.daemon.router.wait(receipt, DEADLINE_S if trial.kind.virtual else 60.0)
        trial.end(number, "answered")
    except ConflictError as given_up:
        if given_up.code != "MESSAGE_DEAD":
            raise
        trial.end(number, "dead")
    except UnavailableError as late:
        trial.harm("no end", str(late), number)


async def at_once(numbers: Sequence[int], each: Callable[[int], Awaitable[object]], *, limit: int = 64) -> None:
    """Run all inputs, so many side by side; what one does in the daemon's code is measured as `input N`."""
    free = trio.CapacityLimiter(limit)

    async def one(number: int) -> None:
        async with free:
            await each(number)

    async with trio.open_nursery() as nursery:
        for number in numbers:
            nursery.start_soon(one, number, name=f"input {number}")


def count(house: TestDaemon, sql: str, *values: str) -> int:
    """Return a count of rows in the daemon's store."""
    row = house.store._reader.execute(sql, values).fetchone()
    return int(row[0]) if row is not None and row[0] is not None else 0
