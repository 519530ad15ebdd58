"""Providers as a turn meets them: keys that change while it runs, and an outage that nobody loses a word to."""

from pathlib import Path

import pytest
import trio

from daycare.base.errors import UnavailableError
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.plugin import Completion, InferRequest, Plugin, ProviderConfig
from daycare.store.records import AgentConfig
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.openai_server import FakeOpenAI
from daycare.testing.scripted import Scripted, echo
from tests.actors.helpers import said_to

OLD, NEW = "sk-old-0123456789abcdef", "sk-new-0123456789abcdef"


async def _key(house: TestDaemon, value: str | None) -> None:
    if value is None:
        await house.store.secrets.remove("box")
    else:
        await house.store.secrets.put("box", "ann", house.daemon.vault.seal(value))


async def test_a_key_added_rotated_and_removed_counts_in_the_next_turn_and_is_never_seen(
    tmp_path: Path, nursery: trio.Nursery, capfd: pytest.CaptureFixture[str]
) -> None:
    async with FakeOpenAI.serve(nursery) as server:
        config = Config(
            models=ModelsSection(default="box/fake-large"),
            providers={"box": ProviderSection(base_url=server.base_url, key="box")},
        )
        server.api_key = OLD
        async with open_daemon(tmp_path, config=config) as house:
            slow = await house.say("slow", path="")
            await trio.sleep(0.2)  # refused for want of a key, and to be tried again
            await _key(house, OLD)
            assert "slow" in await house.hear(slow, 10), "the turn that ran goes on with the key"
            server.api_key = NEW
            await _key(house, NEW)
            assert "rotated" in await house.talk("rotated")
            assert server.history[-1].headers["authorization"] == f"Bearer {NEW}"
            await _key(house, None)
            asked = await house.say("and now?")
            await trio.sleep(0.5)
            failed = house.events("turn.failed")[-1]
            assert failed["code"] == "KEY_REFUSED" and "daycare keys add" not in str(failed["reason"])
            await _key(house, NEW)
            assert "and now?" in await house.hear(asked, 20)
            await house.daemon.pool.aclose()
            everything = str(house.events()) + "".join(await house.store.ledger.events(limit=1_000))
    everything += "".join(capfd.readouterr())
    assert OLD not in everything and NEW not in everything


class Away(Scripted):
    """A provider that is away between two moments of trio's clock; it remembers when it was called."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        super().__init__(self._answer)
        self.begin_s, self.end_s = begin_s, end_s
        self.calls: list[float] = []

    def _answer(self, request: InferRequest) -> Completion:
        self.calls.append(trio.current_time())
        if self.begin_s <= trio.current_time() < self.end_s:
            raise UnavailableError("PROVIDER_UNREACHABLE", "asking: the line is dead")
        return echo(request)


def _two(first: Scripted, second: Scripted) -> Plugin:
    def one(_config: ProviderConfig) -> Scripted:
        return first

    def two(_config: ProviderConfig) -> Scripted:
        return second

    return Plugin(name="two", providers={"one": one, "two": two})


def _calls_a_minute(calls: list[float]) -> int:
    return max(sum(begin <= at < begin + 60 for at in calls) for begin in calls)


async def test_in_an_hour_of_outage_the_fallback_answers_and_the_owner_is_told_once(
    tmp_path: Path, autojump_clock: object
) -> None:
    first, second = Away(100, 3_700), Scripted(echo)
    config = Config(
        models=ModelsSection(default="one/model", fallbacks=("two/model",)),
        providers={"one": ProviderSection(kind="one"), "two": ProviderSection(kind="two")},
    )
    async with open_daemon(tmp_path, config=config, plugins=[_two(first, second)]) as house:
        for minute in range(70):
            assert await house.talk(f"minute {minute}") == f"echo: minute {minute}"
            await trio.sleep(60)
        during = [at for at in first.calls if 100 <= at < 3_700]
        assert _calls_a_minute(during) <= 10
        assert len(second.history) >= 55, "the fallback answered"
        told = [text for text in await said_to(house) if "one" in text and "echo" not in text]
        assert len(told) == 2, told
        assert "away" in told[0] and "back" in told[1]
        assert first.calls[-1] > 3_700 + 300, "it is asked again by itself"


async def test_without_a_fallback_messages_wait_out_an_hour_of_outage_and_lose_nothing(
    tmp_path: Path, autojump_clock: object
) -> None:
    first = Away(100, 3_700)
    config = Config(models=ModelsSection(default="one/model"), providers={"one": ProviderSection(kind="one")})
    async with open_daemon(tmp_path, config=config, plugins=[_two(first, Scripted())]) as house:
        agents = [f"/ann/agent/a{number}" for number in range(5)]
        for path in agents:
            await house.agent(path, AgentConfig())
        await trio.sleep(100)
        receipts = [await house.say(f"hello {number}", path=path) for number, path in enumerate(agents * 4)]
        await trio.sleep(3_700)
        answers = [await house.hear(receipt, 600) for receipt in receipts]
        assert all(answer.startswith("echo: ") for answer in answers)
        assert await house.store.dead.count() == 0
        assert _calls_a_minute([at for at in first.calls if 100 <= at < 3_700]) <= 10
