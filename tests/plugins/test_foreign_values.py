"""Plugins that answer nonsense, in a house on virtual time: whatever they say, nobody else notices."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from daycare.base import foreign
from daycare.base.wellformed import well_formed
from daycare.plugin import ChatCommand, InferRequest, Plugin, TextDelta
from daycare.plugins.contract import flaws
from daycare.store.records import AgentConfig
from daycare.testing.daemon import TestDaemon, open_daemon
from tests.chance import sliced
from tests.plugins.wild import CONFIG, HALF, NAME, RAISED, VALUES, Wild, a_day

TEXTS = (
    *("tool", "command", "behaviour", "health", "message_before", "message_before.text"),
    *("send", "status", "split", "part", "part.text", "fetch", "identity", "identity.name", "capabilities"),
    *("delta.text", "answer.text", "message", "role", "parts", "completion", "finish", "model", "thinking"),
    *("call.arguments", "call.argument", "call.id", "call.name", "models", "models.name", "vectors"),
    *("progress", "sent", "remind.text", "choice.label", "choice.says", "choices", "file.name", "file.type"),
    *("file.data", "spawn", "waiting.key", "pairing", "pairing.qr", "state"),
)
NUMBERS = (
    *("delay_s", "capabilities.typing_s", "capabilities.preview_every_s", "capabilities.edits", "remind.after_s"),
    *("waiting.deadline_s", "pairing.until_ms", "usage", "usage.tokens", "vector.number"),
)
HANDED_IN = (
    *("inbound.connector", "inbound.sender", "inbound.key", "inbound.text", "inbound.name", "inbound.context"),
    *("inbound.meta", "inbound.at_ms", "inbound.files", "inbound.trace", "inbound.reply_target", "inbound.kind"),
    *("scrap.key", "scrap.reason", "scrap.body", "cursor", "batch", "batch.item", "remote.size", "remote.name"),
    *("remember.name", "remember.value", "recall.name", "moved.new", "report", "report.state", "report.reason"),
)
RAISING = (
    *("tool", "command", "behaviour", "health", "message_before", "message_after", "start", "capabilities", "split"),
    *("delay_s", "send", "status", "act", "edit", "withdraw", "fetch", "completion", "delta.text", "models", "vectors"),
    *("identity", "pairing"),
)


PAIRS = [(place, value) for place in (*TEXTS, *NUMBERS, *HANDED_IN) for value in VALUES]
RAISES = [(place, what) for place in RAISING for what in RAISED]


@asynccontextmanager
async def _house(tmp_path: Path, wild: Wild) -> AsyncIterator[TestDaemon]:
    async with open_daemon(tmp_path, config=CONFIG, plugins=[wild.plugin()]) as house:
        await house.store.people.link(f"{NAME}:ann", "ann")
        await house.agent("/ann/app/it", AgentConfig(behaviour=f"{NAME}/acts"))
        await trio.sleep(1)
        yield house


async def _still_well(house: TestDaemon, wild: Wild, what: str) -> None:
    """The daemon lives, can say what it knows, and answers: once the plugin behaves, over its connector, too."""
    daemon = house.daemon
    msgspec.json.encode([await daemon.status(), await daemon.extensions.report(), house.events()])
    wild.place = ""
    asked = f"well after {what}?"
    assert asked in await house.talk(asked), what
    await trio.sleep(1_200)
    before = len(wild.arrived)
    await wild.hand_in()
    await trio.sleep(1_200)
    assert len(wild.arrived) > before, f"nothing goes out over the connector after {what}"


async def test_a_day_asks_at_every_place(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """The table of this file would be worth nothing for a place that nobody asks."""
    wild = Wild()
    async with _house(tmp_path, wild) as house:
        for place in ("", "spawn", "waiting.key", "waiting.deadline_s"):
            wild.place, wild.odd = place, lambda: "k"
            await a_day(house, wild)
    assert {*TEXTS, *NUMBERS, *HANDED_IN, *RAISING} <= wild.asked


@pytest.mark.parametrize("place", [*TEXTS, *NUMBERS, *HANDED_IN])
async def test_nonsense_of_a_plugin_costs_nobody_else_anything(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, place: str
) -> None:
    wild = Wild()
    async with _house(tmp_path, wild) as house:
        for value in [value for at, value in sliced(PAIRS, 21) if at == place]:
            wild.place, wild.odd = place, VALUES[value]
            await a_day(house, wild)
            await _still_well(house, wild, f"{value} at {place}")


@pytest.mark.parametrize("place", RAISING)
async def test_whatever_a_plugin_raises_costs_nobody_else_anything(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, place: str
) -> None:
    wild = Wild()
    async with _house(tmp_path, wild) as house:
        for what in [what for at, what in sliced(RAISES, 5) if at == place]:
            wild.place, wild.raised = place, RAISED[what]
            await a_day(house, wild)
            wild.raised = None
            await _still_well(house, wild, f"{what} raised at {place}")


@pytest.mark.parametrize("receipt", [None, 7, b"r1", HALF, "r" * 5_000])
async def test_a_reply_whose_receipt_is_none_is_sent_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, receipt: object
) -> None:
    wild = Wild()
    async with _house(tmp_path, wild) as house:
        wild.place, wild.odd = "send", lambda: receipt
        await wild.hand_in()
        await trio.sleep(1_200)
        numbers = [int(str(event["outbox"])) for event in house.events("reply.sent")]
        assert wild.arrived and len(wild.arrived) == len(numbers) == len(set(numbers)), "what came together has one"
        sent = [await house.store.outbox.get(number) for number in numbers]
        assert {row.state for row in sent if row} == {"sent"}
        assert all("\ud800" not in (row.receipt or "") for row in sent if row)


async def test_a_stream_that_never_waits_holds_nobody_up(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    class Restless(Wild):
        async def infer(self, request: InferRequest) -> AsyncGenerator[Any, None]:
            while True:
                yield TextDelta("")

    async with _house(tmp_path, Restless()) as house:
        await house.agent("/ann/agent/calm", AgentConfig(model="scripted/model"))
        await house.say("go on for ever")
        assert await house.talk("hello", path="/ann/agent/calm") == "echo: hello"


async def test_a_plugin_whose_own_words_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    assert flaws(Plugin(name="odd", description=HALF)) == ["its description is not text"]
    commands = {"go": ChatCommand(HALF, Wild().command)}
    assert "its help must be one line" in flaws(Plugin(name="odd", commands=commands))[0]


@given(st.text(st.characters(categories=["Cs", "Cc", "Lu", "So"]) | st.just("\x00")), st.integers(0, 20))
def test_a_text_can_be_written_whatever_it_was(words: str, most: int) -> None:
    found = foreign.text(words, most)
    assert "\x00" not in found and len(found.encode()) <= 4 * most
    assert foreign.text(found, most) == found
    assert well_formed(words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) == well_formed(words)


@given(st.floats() | st.integers() | st.none() | st.text() | st.booleans())
def test_a_time_to_wait_is_one_or_is_refused(value: object) -> None:
    try:
        assert 0 <= foreign.seconds(value, 60.0) <= 60
    except (TypeError, ValueError, OverflowError):
        assert isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf")
