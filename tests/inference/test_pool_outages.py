"""What an outage of a provider costs everybody, and what is known of models besides."""

import random
from collections.abc import AsyncGenerator

import pytest
import trio
import trio.testing

from daycare.base.errors import AwayError, DaycareError, InvalidError, UnavailableError
from daycare.base.limits import BREAKER_PAUSE_S, MODEL_INFER_MAX_S
from daycare.inference.breaker import BREAKER_PAUSE_MAX_S
from daycare.inference.pool import MODEL_TRIES_MAX, Failure, ModelChoice, Pool
from daycare.inference.sources import ProviderSource, vendor_at
from daycare.plugin import InferRequest, StreamEvent, TextDelta
from daycare_plugins.offline.plugin import OfflineProvider
from tests.inference.pools import ASKED, DONE, DOWN, GARBLED, REFUSED, Keys, Scripted, Step, ask, pool, refused

# -- outages -----------------------------------------------------------------------------------------------------------


async def test_while_a_provider_is_known_to_be_away_nobody_waits(autojump_clock: trio.testing.MockClock) -> None:
    provider = Scripted([DOWN])
    made = pool(x=provider)
    error, failures = await refused(made)
    assert isinstance(error, AwayError) and error.code == "PROVIDER_AWAY"
    assert error.retry_after_s == BREAKER_PAUSE_S
    assert len(failures) == MODEL_TRIES_MAX and failures[-1].retry_in_s is None
    await trio.sleep(10)
    began = trio.current_time()
    error, failures = await refused(made)
    assert trio.current_time() == began and failures == []
    assert error.retry_after_s == BREAKER_PAUSE_S - 10
    assert "the connection failed" in error.message
    assert len(provider.asked) == MODEL_TRIES_MAX


@pytest.mark.parametrize("error", [REFUSED, InvalidError("REQUEST_REFUSED", "no"), GARBLED])
async def test_refused_keys_and_requests_and_garbled_replies_are_no_outage(
    error: DaycareError, autojump_clock: trio.testing.MockClock
) -> None:
    provider = Scripted([error])
    made = pool(x=provider)
    for _ in range(4):
        assert (await refused(made))[0] is error
    assert len(provider.asked) >= 4


async def test_a_reply_that_breaks_off_again_and_again_is_no_outage(autojump_clock: trio.testing.MockClock) -> None:
    made = pool(x=Scripted([TextDelta("half"), UnavailableError("STREAM_CUT", "it broke")]))
    for _ in range(3):
        assert (await refused(made))[0].code == "STREAM_CUT"


async def test_an_hour_of_outage_costs_few_calls_and_is_told_once(autojump_clock: trio.testing.MockClock) -> None:
    """Eight agents ask all the time; half have a fallback. The provider is away from the 10th minute to the 70th."""
    told: list[tuple[str, bool, float]] = []
    down, up = 600.0, 4_200.0
    began = trio.current_time()

    class Flaky(Scripted):
        async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
            self.asked.append((trio.current_time() - began, request.model))
            await trio.sleep(0.5)
            if down <= trio.current_time() - began < up:
                raise DOWN
            yield DONE

    flaky, spare = Flaky(), Scripted([0.5, DONE])
    sources = {"flaky": ProviderSource("flaky", flaky), "spare": ProviderSource("spare", spare)}
    made = Pool(
        sources,
        {"default": "flaky/m"},
        on_outage=lambda name, error: told.append((name, error is not None, trio.current_time() - began)),
    )
    (first,) = await made.plan()
    answered: list[tuple[int, str, float]] = []
    refusals = 0

    async def agent(number: int) -> None:
        nonlocal refusals
        plan = (first, ModelChoice("spare", "s")) if number % 2 else (first,)
        while True:
            try:
                answer = await made.infer(plan, ASKED)
                answered.append((number, answer.choice.provider, trio.current_time() - began))
                await trio.sleep(1)
            except AwayError as error:
                refusals += 1
                assert error.retry_after_s is not None and 0 < error.retry_after_s <= BREAKER_PAUSE_MAX_S
                await trio.sleep(error.retry_after_s)

    with trio.move_on_after(5_000):
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(agent, number)
    in_outage = [at for at, _ in flaky.asked if down <= at < up]
    for minute in range(10, 70):
        calls = sum(minute * 60 <= at < minute * 60 + 60 for at in in_outage)
        assert calls <= 10, f"{calls} calls in minute {minute}"
    assert len(in_outage) <= 30
    assert [(name, away) for name, away, _ in told] == [("flaky", True), ("flaky", False)]
    assert told[0][2] < down + 30
    assert told[1][2] < up + BREAKER_PAUSE_MAX_S + 1
    odd = [number for number, provider, at in answered if provider == "spare" and down + 30 < at < up]
    assert set(odd) == {1, 3, 5, 7} and len(odd) > 4 * 1_000
    after = {number for number, provider, at in answered if provider == "flaky" and at > told[1][2]}
    assert after == set(range(8)), "recovered for everybody, by itself"
    assert 0 < refusals < 500


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_providers_do_a_call_ends_in_time_with_an_answer_or_one_error(
    seed: int, autojump_clock: trio.testing.MockClock
) -> None:
    """Each failure is told before the next try; choices are asked in order; nobody is asked too often."""
    print(f"seed {seed}")
    luck = random.Random(seed)

    def script() -> list[Step]:
        steps: list[Step] = [luck.choice((0.0, 1.0, 130.0))] if luck.random() < 0.3 else []
        steps += [TextDelta("word")] if luck.random() < 0.3 else []
        late = UnavailableError("RATE_LIMITED", "slow down", retry_after_s=luck.choice((3.0, 45.0, 900.0)))
        wrong = InvalidError("REQUEST_REFUSED", "no")
        return [*steps, luck.choices((DONE, DOWN, GARBLED, REFUSED, late, wrong), (3, 4, 2, 1, 2, 1))[0]]

    told: list[tuple[str, bool]] = []
    providers = {name: Scripted(*(script() for _ in range(30))) for name in "abc"}
    sources = {name: ProviderSource(name, provider) for name, provider in providers.items()}
    made = Pool(
        sources,
        {"default": "a/m"},
        ["b/m", "c/m"],
        on_outage=lambda name, error: told.append((name, error is not None)),
    )
    for _ in range(12):
        failures: list[Failure] = []
        before = {name: len(provider.asked) for name, provider in providers.items()}
        began = trio.current_time()
        try:
            answer = await made.infer(await made.plan(), ASKED, lambda _: None, failures.append)
        except DaycareError as error:
            answered = 0
            if isinstance(error, AwayError):
                assert error.retry_after_s is not None and error.retry_after_s >= 0
            assert not failures or failures[-1].retry_in_s is None
        else:
            answered = 1
            assert all(failure.retry_in_s is not None for failure in failures)
            order = [failure.choice.provider for failure in failures] + [answer.choice.provider]
            assert order == sorted(order), "the choices are asked in order"
        calls = {name: len(provider.asked) - before[name] for name, provider in providers.items()}
        assert sum(calls.values()) == len(failures) + answered
        assert max(calls.values()) <= MODEL_TRIES_MAX
        assert trio.current_time() - began <= MODEL_INFER_MAX_S
        await trio.sleep(luck.choice((0.5, 20.0, 200.0)))
    for name in providers:
        outages = [away for who, away in told if who == name]
        assert outages == [number % 2 == 0 for number in range(len(outages))], "told in turns: away, back, away, ..."


# -- facts, listing, tests ---------------------------------------------------------------------------------------------


def test_facts_are_those_of_the_vendor_that_an_address_means() -> None:
    work = ProviderSource("work", Scripted(), vendor=vendor_at("work", "openai", "https://api.openai.com/v1"))
    made = Pool({"work": work, "mine": ProviderSource("mine", Scripted())}, {})
    assert made.facts(ModelChoice("work", "gpt-4o")).context_tokens == 128_000
    assert made.facts(ModelChoice("mine", "gpt-4o")).input_usd is None
    assert vendor_at("claude", "anthropic", "") == "anthropic"
    assert vendor_at("openai", "openai", "http://127.0.0.1:8000/v1") == ""
    assert vendor_at("ollama", "openai", "http://10.0.0.2:11434/v1") == "ollama"


async def test_the_listing_tells_what_can_be_used_and_how_to_add_the_rest() -> None:
    keys = Keys()
    sources = {
        "offline": ProviderSource("offline", OfflineProvider()),
        "home": ProviderSource("home", Scripted(models=["b", "a"]), corrections={"b": {"context_tokens": 8_000}}),
        "down": ProviderSource("down", Scripted(models=DOWN)),
        "openai": keys.source("openai", Scripted(), given=False),
        "ollama": keys.source("ollama", Scripted(models=["qwen3:8b"]), given=False, needs=False),
    }
    seen = await Pool(sources, {"default": "a", "memory": "offline/rules"}, ["home/b"]).models()
    states = {state.name: state for state in seen.providers}
    assert {name: state.state for name, state in states.items()} == {
        "offline": "ready",
        "home": "ready",
        "down": "away",
        "openai": "unconfigured",
        "ollama": "unconfigured",
    }
    assert states["openai"].hint == "daycare keys add openai"
    assert states["down"].why == "the connection failed"
    assert 'default = "ollama/qwen3:8b"' in states["ollama"].hint
    a, b = states["home"].models
    assert (a.name, a.roles, a.fallback) == ("a", ("default",), 0)
    assert (b.name, b.roles, b.fallback, b.facts.context_tokens) == ("b", (), 1, 8_000)
    assert states["offline"].models[0].roles == ("memory",)
    assert seen.fallbacks == ("home/b",)


async def test_testing_makes_one_call_each_and_tells_the_errors(autojump_clock: trio.testing.MockClock) -> None:
    good, bad = Scripted([2.5, DONE]), Scripted([DOWN])
    made = pool({"default": "good/m", "user": "good/m", "task": "bad/n"}, ["nobody/x"], good=good, bad=bad)
    results = await made.test()
    assert [(result.model, result.code) for result in results] == [
        ("good/m", ""),
        ("bad/n", "PROVIDER_UNREACHABLE"),
        ("nobody/x", "PROVIDER_NOT_CONFIGURED"),
    ]
    assert results[0].latency_ms == 2_500
    assert "daycare keys add nobody" in results[2].hint
    assert (len(good.asked), len(bad.asked)) == (1, 1)
    assert [result.model for result in await made.test(["bad/other"])] == ["bad/other"]


async def test_a_test_that_works_ends_an_outage(autojump_clock: trio.testing.MockClock) -> None:
    provider = Scripted([DOWN])
    made = pool(x=provider)
    await refused(made)
    provider.scripts = [[DONE]]
    assert (await made.test())[0].code == ""
    assert await ask(made) == ("x/m", [])
