"""A house with an agent that has lived a while, and short ways to move it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import trio
from msgspec.structs import replace

from daycare.base.cron import CronSpec
from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.memory_settings import IngestionSection, MemorySection
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Message, Origin, Text, ToolCall, ToolResult
from daycare.base.path import Kind
from daycare.base.path import Path as Address
from daycare.config import Config
from daycare.features.cron.model import NewCronJob
from daycare.features.cron.rows import CronRows
from daycare.features.exports.archive import ExportArchive
from daycare.features.exports.engine import ExportEngine, ExportProgress, ExportReport
from daycare.features.exports.names import Renaming
from daycare.features.exports.records import Anything, ExportRecord, JobRecord
from daycare.features.memory.documents.rows import DocumentRows
from daycare.plugin import Inbound
from daycare.store.records import AgentConfig, Summary, TurnEnd, User
from daycare.testing.daemon import TestDaemon, open_daemon

R = TypeVar("R", bound=ExportRecord)
WORK = "/ann/agent/work"
ANN = Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann", reason="set up")
SAID = ("My sister Clara lives in Bern.", "I love green tea.", "My favourite colour is teal.")
LATER = ("My favourite colour is now purple.", "Remember that my locker code is 4711.")
CONFIG = Config(memory=MemorySection(ingestion=IngestionSection(idle_minutes=1)))  # answered by rules
QUIET_S = 500.0  # until workers have looked at what was said


@asynccontextmanager
async def house_at(folder: Path, location: str = "daycare.db") -> AsyncIterator[TestDaemon]:
    """Open a house over a file in `folder`, or over another store."""
    folder.mkdir(exist_ok=True)
    async with open_daemon(folder, config=CONFIG, location=location, curates=True) as house:
        if await house.store.people.get("bob") is None:
            await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
        yield house


async def lived(house: TestDaemon) -> None:
    """Let the agent `WORK` talk, learn, keep documents and files, and have a helper with a helper of its own."""
    work = await house.agent(WORK, AgentConfig(description="does the work", model="offline/rules"))
    for text in SAID:
        await house.talk(text, path=WORK)
    await trio.sleep(QUIET_S)
    for text in LATER:
        await house.talk(text, path=WORK)
    await trio.sleep(QUIET_S)
    await house.talk("remind me in 3 hours to water the garden", path=WORK)
    await house.talk("remind me in 20 minutes to breathe", path=WORK)
    cat = await house.store.files.put("direct:cat", "ann", Origin.FILE, "cat.png", "image/png", b"\x89PNG" + bytes(99))
    seen = await house.daemon.intake.accept(
        Inbound(connector="direct", sender="direct:ann", key="cat", text="look at her", path=WORK, files=(cat,))
    )
    await house.hear(seen)
    helper = await house.daemon.directory.spawn(work, Kind.SUB, origin=Origin.AGENT)
    below = await house.daemon.directory.spawn(helper, Kind.SUB, origin=Origin.AGENT)
    for n, agent in enumerate((helper, below)):
        receipt = await house.post(agent.path, f"do part {n}", sender=WORK, key=f"part-{n}")
        await house.hear(receipt)
    await long_result(house, WORK)
    await summed_up(house, WORK)
    await documents(house, work.id)
    spec = CronSpec(cron="30 7 * * *", prompt="what is new?", target=WORK)
    job = NewCronJob(path="/ann/cron/news", user="ann", source="cli", source_ref="", spec=spec, next_at=None)
    await house.store.of(CronRows).add(job)
    await trio.sleep(QUIET_S)


async def long_result(house: TestDaemon, path: str) -> None:
    """Let the agent's last turn have a tool result that was too long for a prompt."""
    agent = await house.daemon.directory.at(path)
    [row] = [await house.store.inbox.post(_letter(path))]
    rows = await house.store.inbox.rows([row.seq])
    turn = await house.store.turns.begin(agent, rows)
    file = await house.store.files.put(
        f"result:{turn.turn}:2", "ann", Origin.AGENT, "search-2.txt", "text/plain", b"very long " * 1_000
    )
    history = (
        Message("user", (Text("search"),), sender="/ann/direct", origin=Origin.AGENT),
        Message("assistant", (ToolCall("c1", "search", {"q": "x"}), ToolCall("c2", "read_result", {"file": file.id}))),
        Message(
            "tool",
            (
                ToolResult(
                    call_id="c1",
                    name="search",
                    text=f"very long\n[cut: 10000 characters in all; read on with read_result, file {file.id}, from"
                    " offset 16000]",
                ),
            ),
        ),
    )  # fmt: skip
    end = TurnEnd(turn=turn.turn, state="done", seqs=turn.seqs, history=history, result="found")
    await house.store.turns.finish(agent, turn, end)


async def summed_up(house: TestDaemon, path: str) -> None:
    """Let a summary stand for the agent's turns."""
    agent = await house.daemon.directory.at(path)
    [(_, last)] = [pair for pair in await house.store.agents.recency("ann", "agent") if pair[0].path == path]
    summary = Summary(
        agent_id=agent.id, session=agent.session, user="ann", origin=Origin.PERSON, through=last, turns=5,
        text="Ann talked of tea.", tokens_before=900, tokens_after=5, created_at=1_798_761_600_000,
    )  # fmt: skip
    await house.store.summaries.add(summary, None)


async def documents(house: TestDaemon, owner: str) -> None:
    """Let the agent have documents with a history: of a person, of its own, deleted, and of who it is."""
    write = house.store.of(DocumentRows).write

    async def put(layer: Layer, owner: str, name: str, text: str | None, by: Attribution) -> None:
        await write(NewVersion(place=Place(layer, owner, name), user="ann", by=by, text=text))

    own = Attribution(origin=Origin.AGENT, author=WORK, approver="direct:ann", provenance=("message:12",))
    web = Attribution(
        origin=Origin.FORWARD, author=WORK, reason="from the web", provenance=("web:https://example.org",)
    )
    for text in ("one", "one\ntwo", "three"):
        await put(Layer.AGENT, owner, "MEMORY.md", text, own)
    await put(Layer.AGENT, owner, "SOUL.md", "I am careful.", ANN)
    await put(Layer.AGENT, owner, "SOUL.md", "I am careful and brief.", ANN)
    await put(Layer.AGENT, owner, "knowledge/tea.md", "Green tea: 70 degrees.", web)
    await put(Layer.AGENT, owner, "knowledge/gone.md", "never mind", own)
    await put(Layer.AGENT, owner, "knowledge/gone.md", None, ANN)
    await put(Layer.USER, "ann", "USER.md", "Ann gardens.", ANN)


def exports_of(house: TestDaemon) -> ExportEngine:
    """Return what exports and imports in a house."""
    return house.daemon.exports


async def exported(house: TestDaemon, path: str = WORK, *, shared: bool = False) -> tuple[ExportReport, bytes]:
    """Export an agent; return what came of it, and the file."""
    exports = exports_of(house)
    report = await exports.export(path, shared=shared, progress=ExportProgress())
    return report, b"".join([piece async for piece in exports.fetch(report.id)])


async def imported(
    house: TestDaemon, data: bytes, path: str, *, approve: bool = False, dry_run: bool = False
) -> ExportReport:
    """Import a file as an agent."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 60_000):
            yield data[start : start + 60_000]

    exports = exports_of(house)
    upload, size = await exports.receive(pieces())
    assert size == len(data)
    return await exports.bring(upload, path, approve=approve, dry_run=dry_run, progress=ExportProgress())


def records(data: bytes) -> list[Anything]:
    """Return the records of an export."""
    return list(ExportArchive(BytesIO(data)).records())


def as_it_should_be(data: bytes, new: str, *, trusted: bool = False) -> list[Anything]:
    """Return the records of an export as they are to be after an import."""
    renaming = Renaming(WORK, Address.parse(new, ()), trusted=trusted)
    found = [renaming.record(record, lambda place: place) for record in records(data)]
    return [replace(record, paused=True) if isinstance(record, JobRecord) else record for record in found]


def files(data: bytes) -> list[tuple[str, bytes]]:
    """Return name and bytes of the files of an export."""
    return [(record.name, content) for _, record, content in ExportArchive(BytesIO(data)).files()]


def of_kind(data: bytes, kind: type[R]) -> list[R]:
    """Return the records of one kind."""
    return [record for record in records(data) if isinstance(record, kind)]


def _letter(path: str) -> Envelope:
    return Envelope(
        to=path, user="ann", origin=Origin.AGENT, sender="/ann/direct", key="search", text="search", trace="t-search",
        kind=EnvelopeKind.NOTICE, lane=Lane.CONTROL,
    )  # fmt: skip
