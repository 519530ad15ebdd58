"""What is in the books is what was answered: whatever follows a call, by whomever it was made.

Each call's usage has a bit of its own, so that sums tell which calls were charged, and how often.
"""

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import trio
from msgspec.structs import replace

from daycare.agent.compaction import SYSTEM as SUMMING_UP
from daycare.base.clues import SEARCHER
from daycare.base.errors import DaycareError, ForbiddenError, InvalidError, UnavailableError
from daycare.base.messages import Usage
from daycare.config import Config, ModelSection, ModelsSection, ProviderSection
from daycare.inference.metering import Payer
from daycare.plugin import Completion, InferRequest, StreamEvent, TextDelta
from daycare.settings import BudgetsSection
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, echo, say
from tests.agent.helpers import LONG
from tests.chance import commits
from tests.remembering.asking import CLARA, results
from tests.remembering.test_workers import distil, lines_of
from tests.signals.test_heartbeats import EVERY as BEATS
from tests.signals.test_heartbeats import beat, budget
from tests.tasks.helpers import start

DIRECT: Final = f"/{OWNER}/direct"
COMMITS_MAX: Final = 60
EVERY: Final = 58
HANG: Final = "hang"
FAILS_FOR: Final = 12  # calls, so that trying again does not help at once

Story = Callable[[TestDaemon], Awaitable[None]]


class Till(Scripted):
    """A provider that knows what it has to be paid for. From call `bad` on it fails some times as `how` says.

    `answered` are the bits of the calls whose whole answer left it, `begun` counts all.
    """

    def __init__(self) -> None:
        super().__init__(_think)
        self.answered: list[int] = []
        self.begun = 0
        self.how: DaycareError | str | None = None
        self._bad = range(0)

    def fail(self, bad: int, how: DaycareError | str | None) -> None:
        """Fail from call number `bad` on, counted from now."""
        self.how = how
        self._bad = range(self.begun + bad, self.begun + bad + (1 if how == HANG else FAILS_FOR))

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Answer, or fail."""
        self.begun += 1
        if self.begun in self._bad:
            if isinstance(self.how, DaycareError):
                await trio.lowlevel.checkpoint()
                raise type(self.how)(self.how.code, self.how.message)
            await trio.sleep_forever()
        async for event in super().infer(request):
            if isinstance(event, Completion):
                bit = 1 << len(self.answered)
                self.answered.append(bit)
                yield replace(event, usage=Usage(10, 5, cached_tokens=bit))
            else:
                yield event


def _think(request: InferRequest) -> Completion:
    """Be everybody: a searcher, a memory worker, who sums up, and an agent that works with tools."""
    if request.system.startswith(SEARCHER):
        return say("Bern.") if results(request) else call(("memory_search", {"query": "Clara"}))
    if request.output is not None:
        return distil(request) if len(lines_of(request)) <= 4 else replace(say("{"), finish="length")
    if request.system == SUMMING_UP:
        return say("<summary>nothing much</summary>")
    said = next((it.text for it in reversed(request.messages) if it.role == "user"), "")
    words = set(said.replace(":", " ").split())
    if results(request) or not {"work", "delegate", "Heartbeat"} & words:
        return echo(request)
    return call(("spawn", {"task": "please work"})) if "delegate" in words else call(("note", {"text": "working"}))


def _config(*limits: str) -> Config:
    model = ModelSection(context_tokens=8_000, output_tokens=1_000, input_usd=1.0, output_usd=1.0)
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted", models={"model": model})},
        budgets=BudgetsSection(operator=limits),
    )


LIMITS: Final = {"a budget binds": ("100000calls a day", "1000usd a day"), "nothing binds": ()}


async def _said(house: TestDaemon, text: str, key: str = "") -> None:
    await house.say(text, key=key)
    await trio.sleep(60)


async def _works(house: TestDaemon) -> None:
    await _said(house, "work", "the turn")


async def _delegates(house: TestDaemon) -> None:
    await _said(house, "delegate", "the turn")


async def _sums_up(house: TestDaemon) -> None:
    await _said(house, "once more " + LONG, "the turn")


async def _compacts(house: TestDaemon) -> None:
    await _said(house, "/compact", "the command")
    await _said(house, "and on", "the turn")


async def _searches(house: TestDaemon) -> None:
    await _said(house, "/memory ask where does Clara live?", "the question")


async def _curates(house: TestDaemon) -> None:
    await house.daemon.memory.controls.process()
    await trio.sleep(60)


async def _tests(house: TestDaemon) -> None:
    payer = Payer(path=f"/{OWNER}", user=OWNER)
    for _ in range(2):
        with trio.move_on_after(300):
            await house.daemon.pool.test(payer=payer)


async def _does_a_task(house: TestDaemon) -> None:
    await start(house, "please work")
    await trio.sleep(60)


async def _beats(house: TestDaemon) -> None:
    await budget(house, tokens=10_000_000)  # without one no heart beats
    await beat(house, DIRECT)
    await trio.sleep(2 * BEATS)


class Caller(NamedTuple):
    """Who calls: how to bring that about after `turns` of talk, and whom `/stop` reaches then."""

    story: Story
    path: str = DIRECT
    turns: int = 1


CALLERS: Final = {
    "a turn": Caller(_works),
    "a helper": Caller(_delegates, f"{DIRECT}/sub/0"),
    "a summary in a turn": Caller(_sums_up, turns=6),
    "/compact": Caller(_compacts, turns=3),
    "a search": Caller(_searches, f"{DIRECT}/search/0"),
    "a memory worker": Caller(_curates, f"{DIRECT}/memory", turns=6),
    "a test of models": Caller(_tests),
    "a task": Caller(_does_a_task, f"/{OWNER}/task/sum"),
    "a heartbeat": Caller(_beats),
}
WAYS: Final[dict[str, DaycareError | str]] = {
    "away": UnavailableError("PROVIDER_UNREACHABLE", "nobody is there"),
    "unavailable": UnavailableError("MODEL_FAILED", "it broke"),
    "invalid": InvalidError("REQUEST_REFUSED", "no such thing"),
    "forbidden": ForbiddenError("KEY_REFUSED", "who are you?"),
    "stopped": HANG,
    "late": HANG,
}


async def _talked(house: TestDaemon, turns: int) -> None:
    await house.talk(CLARA)
    for number in range(turns - 1):
        await house.talk(f"{number} {LONG if turns > 1 else ''}")
    await trio.sleep(5)


async def _agrees(house: TestDaemon, till: Till, *, bound: bool, cut: bool) -> None:
    """Compare the books with what the provider has answered. `cut`: calls were broken off, or the daemon was."""
    rows = [row for row in await house.daemon.budgeting.controls.spent(3) if row.provider == "scripted"]
    charged = sum(row.cached_tokens for row in rows)
    calls, unsettled = sum(row.calls for row in rows), sum(row.unsettled for row in rows)
    lost = [bit for bit in till.answered if not charged & bit]
    assert calls == len(till.answered) - len(lost), "no call is charged twice"
    assert charged == sum(bit for bit in till.answered if bit not in lost)
    broken = till.begun - len(till.answered)
    if not cut:
        assert lost == [] and unsettled <= broken
        assert unsettled == 0 or bound
    elif bound:
        assert len(lost) <= unsettled, "what a crash hid counts as it was reserved"
        assert unsettled <= len(lost) + broken + 1, "of what was never asked only what the crash had just reserved"
    else:
        assert len(lost) <= 1, "one call at most: that whose answer had just come"
    [(bits, single)] = house.store._db.execute(
        "SELECT coalesce(sum(cached_tokens), 0), count(*) FROM spend WHERE provider = 'scripted'"
    ).fetchall()
    assert int(str(bits)) & ~charged == 0 and int(str(single)) <= calls, "single calls are some of those in the sums"
    if bound:
        cost = sum(row.cost_micros + row.unsettled_micros for row in rows)
        explained = await house.daemon.budgeting.controls.explained(f"/{OWNER}")
        used = {limit.name: limit.used for view in explained for limit in view.limits if view.path == f"/{OWNER}"}
        assert used.get("day.calls", calls + unsettled) == calls + unsettled
        assert used.get("day.usd", cost) == cost


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("caller", CALLERS)
async def test_what_was_answered_is_charged_whatever_becomes_of_the_next_call(
    tmp_path: Path, autojump_clock: object, caller: str, way: str, limits: str
) -> None:
    it, till = CALLERS[caller], Till()
    async with open_daemon(tmp_path, till, config=_config(*LIMITS[limits])) as house:
        await _talked(house, it.turns)
        before = till.begun
        till.fail(2, WAYS[way])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.story, house)
            with trio.fail_after(10_000):
                while till.begun < before + 2:
                    await trio.sleep(1)
            if way == "stopped":
                await house.post(it.path, "/stop", sender=DIRECT, key="stop", control=True)
        await trio.sleep(2_000 if way == "late" else 30)
        assert till.begun > len(till.answered) > before, "the first call was answered, the next one failed"
        await _agrees(house, till, bound=bool(LIMITS[limits]) or caller == "a heartbeat", cut=False)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("late", [False, True], ids=["before anyone hears of it", "after all that followed in memory"])
@pytest.mark.parametrize("caller", CALLERS)
async def test_what_was_answered_is_charged_once_whatever_commit_was_the_last(
    tmp_path: Path, autojump_clock: object, caller: str, late: bool, limits: str
) -> None:
    it, setup = CALLERS[caller], _config(*LIMITS[limits])
    bound = bool(LIMITS[limits]) or caller == "a heartbeat"

    async def talked(house: TestDaemon) -> None:
        await _talked(house, it.turns)

    seed = Till()
    (tmp_path / "seed").mkdir()
    assert not await live(tmp_path / "seed", seed, Doom(), talked, config=setup, clock=VirtualClock())
    struck = 0
    for n in commits(EVERY, begin=3 if late else 1):
        home, till = tmp_path / str(n), Till()
        shutil.copytree(tmp_path / "seed", home)
        till.answered, till.begun = list(seed.answered), seed.begun

        async def first(house: TestDaemon) -> None:
            await it.story(house)

        if not await live(home, till, Doom(n, late=late), first, config=setup, clock=VirtualClock()):
            break
        struck = n

        async def second(house: TestDaemon, till: Till = till) -> None:
            await trio.sleep(2_000)
            await _agrees(house, till, bound=bound, cut=True)

        assert not await live(home, till, Doom(), second, config=setup, clock=VirtualClock())
        if n >= COMMITS_MAX:
            break
    assert struck, "it never crashed"


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("how", ["it breaks", "it goes on", "a person stops it"])
async def test_an_answer_that_was_whole_is_charged_as_counted_though_its_call_failed(
    tmp_path: Path, autojump_clock: object, how: str, limits: str
) -> None:
    class Unfinished(Till):
        async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
            async for event in super().infer(request):
                yield event
            if how == "it breaks":
                raise UnavailableError("STREAM_CUT", "the connection was lost behind the answer")
            if how == "it goes on":
                yield TextDelta("and another thing")
            await trio.sleep(30)

    till = Unfinished()
    async with open_daemon(tmp_path, till, config=_config(*LIMITS[limits])) as house:
        await house.say("hello")
        await trio.sleep(1)
        assert till.answered
        await house.say("/stop")
        await trio.sleep(5)
        await _agrees(house, till, bound=bool(LIMITS[limits]), cut=False)
