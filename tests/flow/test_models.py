"""Models within turns: what failed and what it cost is told, and the owner hears of an outage once and of its end."""

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import trio
import trio.testing

from daycare.base.errors import UnavailableError
from daycare.config import Config, ModelSection, ModelsSection, PluginsSection, ProviderSection
from daycare.features.budgets.rows import BudgetRows
from daycare.inference.pool import ModelChoice
from daycare.plugin import InferRequest, Plugin, ProviderConfig, StreamEvent
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, say

DOWN = UnavailableError("PROVIDER_UNREACHABLE", "the connection failed")


class Spare(Scripted):
    """A second provider beside the house's own."""

    name = "spare"

    def plugin(self) -> Plugin:
        return Plugin(name="spare", providers={"spare": lambda config: self})


def config(*fallbacks: str) -> Config:
    priced = ModelSection(input_usd=1.0, output_usd=2.5)
    return Config(
        models=ModelsSection(default="scripted/model", fallbacks=fallbacks),
        providers={
            "scripted": ProviderSection(kind="scripted", models={"model": priced}),
            **({"spare": ProviderSection(kind="spare")} if fallbacks else {}),
        },
    )


async def notices(house: TestDaemon) -> list[str]:
    return [str(event["text"]) for event in house.events("notice")]


async def test_a_try_that_failed_is_an_event_and_the_answer_is_charged_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_daemon(tmp_path, config=config()) as house:
        house.model.enqueue(DOWN, say("here"))
        assert await house.talk("hello") == "here"
        (failed,) = house.events("model.failed")
        assert (failed["provider"], failed["model"], failed["code"]) == ("scripted", "model", DOWN.code)
        assert failed["retry_in_s"] == 1.0
        assert failed["path"] == f"/{OWNER}/direct"
        assert house.events("turn.failed") == []
        assert (await house.store.of(BudgetRows).total())[
            "cost_micros"
        ] == 23  # 10 tokens in at 1 and 5 out at 2.5, rounded up


async def test_the_fallback_answers_and_the_owner_hears_of_the_outage_and_its_end_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    spare = Spare(lambda request: say(f"spare {request.model}"))
    async with open_daemon(tmp_path, config=config("spare/tyre"), plugins=[spare.plugin()]) as house:
        house.model.enqueue(*[DOWN] * 4)
        for number in range(5):
            assert await house.talk(f"hello {number}") == "spare tyre"
        assert len(house.model.history) == 3
        await trio.sleep(31)
        assert await house.talk("a probe fails") == "spare tyre"
        await trio.sleep(61)
        assert await house.talk("a probe answers") == "echo: a probe answers"
        await trio.sleep(1)
        away, back = house.events("provider.away")
        assert (away["provider"], away["reason"]) == ("scripted", DOWN.message)
        assert back["cleared"] is True
        told = await notices(house)
        assert len(told) == 2
        assert "scripted is away: the connection failed" in told[0]
        assert told[1] == "The model provider scripted is back."


async def test_a_key_alone_adds_a_well_known_provider_in_the_next_turn(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    asked: list[str | None] = []

    class Keyed(Scripted):
        needs_key = True

        async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
            asked.append(secret())
            async for event in super().infer(request):
                yield event

    keyed = Keyed(lambda request: say(request.model))
    secrets: list[Callable[[], str | None]] = []

    def secret() -> str | None:
        return secrets[0]() if secrets else None

    def make(config: ProviderConfig) -> Keyed:
        secrets.append(config.secret)
        return keyed

    house_config = Config(
        models=ModelsSection(default="openai/gpt-5"), providers={}, plugins=PluginsSection(disable=("openai",))
    )
    plugin = Plugin(name="keyed", providers={"openai": make})
    async with open_daemon(tmp_path, config=house_config, plugins=[plugin]) as house:
        pool = house.daemon.pool
        sealed = house.daemon.vault.seal
        assert pool.configured == []
        await house.store.secrets.put("openai", OWNER, sealed("first-key"))
        assert "openai" in pool.configured
        assert await pool.plan() == (ModelChoice("openai", "gpt-5"),)
        assert await house.talk("one") == "gpt-5"
        await house.store.secrets.put("openai", OWNER, sealed("second-key"))
        assert await house.talk("two") == "gpt-5"
        assert asked == ["first-key", "second-key"]
        await house.store.secrets.remove("openai")
        assert "openai" not in pool.configured
