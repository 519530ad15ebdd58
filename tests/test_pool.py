"""The pool: which model answers, what is tried again and where it ends, and what an outage costs everybody."""

import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from itertools import pairwise

import msgspec
import pytest
import trio
import trio.testing

from daycare.base.errors import AwayError, BrokenError, DaycareError, ForbiddenError, InvalidError, UnavailableError
from daycare.base.limits import (
    BREAKER_FAILURES,
    BREAKER_PAUSE_MAX_S,
    BREAKER_PAUSE_S,
    CONTEXT_OUTPUT_TOKENS,
    MODEL_FIRST_TOKEN_S,
    MODEL_INFER_MAX_S,
    MODEL_LIST_AGAIN_S,
    MODEL_LIST_DEADLINE_S,
    MODEL_LIST_KEEP_S,
    MODEL_NEXT_TOKEN_S,
    MODEL_RETRY_AFTER_MAX_S,
    MODEL_TRIES_MAX,
    REPLY_MAX_CHARS,
    TURN_DEADLINE_S,
)
from daycare.base.messages import Message, Text, Usage
from daycare.inference.offline import OfflineProvider
from daycare.inference.openai import OpenAIProvider
from daycare.inference.pool import Choice, Failure, Pool
from daycare.inference.sources import Source, vendor_at
from daycare.observe.redact import hide
from daycare.plugin import Completion, InferRequest, Provider, ProviderConfig, StreamEvent, TextDelta
from daycare.testing.openai_server import FakeOpenAI

ASKED = InferRequest(model="", system="", messages=(Message("user", (Text("hi"),)),))
DONE = Completion(message=Message("assistant", (Text("ok"),)), finish="stop", usage=Usage(1_000, 100))
DOWN = UnavailableError("PROVIDER_UNREACHABLE", "the connection failed")
GARBLED = UnavailableError("MODEL_GARBLED", "frames that cannot be read")
REFUSED = ForbiddenError("KEY_REFUSED", "the key was refused")
Step = StreamEvent | float | DaycareError


class Scripted:
    """Each call takes the next script, the last one again and again: sleeps its numbers, yields its events, raises."""

    def __init__(self, *scripts: Sequence[Step], models: Sequence[str] | DaycareError | float = ()) -> None:
        self.name = "scripted"
        self.needs_key = False
        self.asked: list[tuple[float, str]] = []
        self.bounds: list[int | None] = []
        self.listed = 0
        self.closed = 0
        self.scripts = [list(script) for script in scripts]
        self.has = models

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        self.asked.append((trio.current_time(), request.model))
        self.bounds.append(request.max_output_tokens)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        try:
            for step in script:
                if isinstance(step, DaycareError):
                    raise step
                elif isinstance(step, float):
                    await trio.sleep(step)
                else:
                    yield step
        finally:
            self.closed += 1

    async def models(self) -> list[str]:
        self.listed += 1
        if isinstance(self.has, float):
            await trio.sleep(self.has)
            return []
        if isinstance(self.has, DaycareError):
            raise self.has
        return list(self.has)


class Keys(dict[str, bool]):
    """Which secrets are stored."""

    def source(self, name: str, provider: Provider, *, given: bool = True, needs: bool = True) -> Source:
        provider.needs_key = needs
        return Source(name, provider, key=name, has_key=lambda: self.get(name, False), given=given)


def pool(models: Mapping[str, str] | None = None, fallbacks: Sequence[str] = (), **providers: Provider) -> Pool:
    sources = {name: Source(name, provider) for name, provider in providers.items()}
    return Pool(sources, models or {"default": f"{next(iter(providers))}/m"}, fallbacks)


async def ask(made: Pool) -> tuple[str, list[Failure]]:
    """Return who answered and what failed before."""
    failures: list[Failure] = []
    answer = await made.infer(await made.plan(), ASKED, lambda _: None, failures.append)
    return str(answer.choice), failures


async def refused(made: Pool) -> tuple[DaycareError, list[Failure]]:
    failures: list[Failure] = []
    with pytest.raises(DaycareError) as caught:
        await made.infer(await made.plan(), ASKED, lambda _: None, failures.append)
    return caught.value, failures


# -- plan ------------------------------------------------------------------------------------------------------------


async def test_the_override_wins_over_the_role_and_the_role_over_the_default() -> None:
    made = pool({"default": "a/one", "user": "b/two"}, a=Scripted(), b=Scripted())
    assert await made.plan("user", "a/three") == (Choice("a", "three"),)
    assert await made.plan("user") == (Choice("b", "two"),)
    assert await made.plan("memorySearch") == await made.plan(None) == (Choice("a", "one"),)
    assert str((await made.plan())[0]) == "a/one"


async def test_only_the_first_part_of_a_name_is_the_providers() -> None:
    made = pool({"default": "router/acme/large:free"}, router=Scripted())
    assert await made.plan() == (Choice("router", "acme/large:free"),)


async def test_fallbacks_follow_in_order_each_once() -> None:
    made = pool({"default": "a/m"}, ["b/x", "a/m", "c/y", "b/x"], a=Scripted(), b=Scripted(), c=Scripted())
    assert list(map(str, await made.plan())) == ["a/m", "b/x", "c/y"]


async def test_fallbacks_that_cannot_be_called_are_left_out() -> None:
    keys = Keys()
    made = Pool(
        {"a": Source("a", Scripted()), "b": keys.source("b", Scripted())}, {"default": "a/m"}, ["b/x", "nobody/y"]
    )
    assert await made.plan() == (Choice("a", "m"),)
    keys["b"] = True
    assert await made.plan() == (Choice("a", "m"), Choice("b", "x"))


@pytest.mark.parametrize(
    ("models", "code", "words"),
    [
        ({"default": "c/one"}, "PROVIDER_NOT_CONFIGURED", "configured are: a, b"),
        ({"default": "acme/one"}, "PROVIDER_NOT_CONFIGURED", "daycare keys add acme"),
        ({"default": "a/"}, "MODEL_NOT_CONFIGURED", "a/"),
        ({}, "MODEL_NOT_CONFIGURED", "user"),
        ({"memory": "a/one"}, "MODEL_NOT_CONFIGURED", "default"),
    ],
)
async def test_what_cannot_be_resolved_says_what_there_is(models: Mapping[str, str], code: str, words: str) -> None:
    sources = {name: Source(name, Scripted()) for name in ("a", "b")}
    with pytest.raises(InvalidError) as caught:
        await Pool(sources, models).plan("user")
    assert caught.value.code == code
    assert words in str(caught.value)


async def test_a_provider_without_its_key_is_found_before_any_call_and_a_new_key_counts_at_once() -> None:
    keys = Keys()
    paid = Scripted([DONE])
    made = Pool({"paid": keys.source("paid", paid, given=False)}, {"default": "paid/m"})
    for _ in range(2):
        with pytest.raises(InvalidError) as caught:
            await made.plan()
        assert caught.value.code == "PROVIDER_NOT_CONFIGURED"
        assert "paid has no key; configured are: none" in caught.value.message
        assert caught.value.hint == "daycare keys add paid"
        keys["paid"] = True
        assert await made.plan() == (Choice("paid", "m"),)
        keys["paid"] = False
    assert paid.asked == []
    assert paid.listed == 0


def test_an_unknown_role_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidError, match="usr"):
        pool({"usr": "a/one"}, a=Scripted())


# -- names without prefix --------------------------------------------------------------------------------------------


async def test_a_vendors_model_belongs_to_the_vendor_if_it_has_a_key() -> None:
    keys = Keys(openai=True)
    openai, anthropic = Scripted(), Scripted()
    sources = {
        "openai": keys.source("openai", openai, given=False),
        "anthropic": keys.source("anthropic", anthropic, given=False),
    }
    made = Pool(sources, {"default": "gpt-5-mini"})
    assert await made.plan() == (Choice("openai", "gpt-5-mini"),)
    with pytest.raises(InvalidError) as caught:
        await made.plan(override="claude-sonnet-5-5")
    assert (caught.value.code, caught.value.hint) == ("PROVIDER_NOT_CONFIGURED", "daycare keys add anthropic")
    keys["anthropic"] = True
    assert await made.plan(override="claude-sonnet-5-5") == (Choice("anthropic", "claude-sonnet-5-5"),)
    assert openai.listed + anthropic.listed <= 1


async def test_a_name_belongs_to_the_first_configured_provider_that_has_it() -> None:
    made = pool(
        {"default": "qwen3:8b"},
        a=Scripted(models=["x"]),
        b=Scripted(models=["qwen3:8b"]),
        c=Scripted(models=["qwen3:8b"]),
    )
    assert await made.plan() == (Choice("b", "qwen3:8b"),)
    assert await made.plan(override="x") == (Choice("a", "x"),)


async def test_ollamas_latest_need_not_be_written() -> None:
    assert await pool({"default": "llama3.2"}, o=Scripted(models=["llama3.2:latest"])).plan() == (
        Choice("o", "llama3.2"),
    )


async def test_lists_of_models_are_asked_for_once_an_hour(autojump_clock: trio.testing.MockClock) -> None:
    provider = Scripted(models=["m"])
    made = pool({"default": "m"}, a=provider)
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(made.plan)
    assert provider.listed == 1
    await trio.sleep(MODEL_LIST_KEEP_S + 1)
    provider.has = DOWN
    assert await made.plan() == (Choice("a", "m"),)  # the old list is better than none
    assert provider.listed == 2


async def test_providers_that_do_not_answer_are_passed_over_and_not_asked_all_the_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    slow, down = Scripted(models=1e9), Scripted(models=DOWN)
    made = pool({"default": "m"}, slow=slow, down=down, there=Scripted(models=["m"]))
    began = trio.current_time()
    for _ in range(10):
        assert await made.plan() == (Choice("there", "m"),)
    assert trio.current_time() - began == pytest.approx(MODEL_LIST_DEADLINE_S)
    assert (slow.listed, down.listed) == (1, 1)


async def test_a_model_nobody_has_is_refused_but_waited_for_while_somebody_is_silent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(InvalidError) as unknown:
        await pool({"default": "m"}, a=Scripted(models=["x"])).plan()
    assert unknown.value.code == "MODEL_UNKNOWN"
    with pytest.raises(AwayError) as away:
        await pool({"default": "m"}, a=Scripted(models=["x"]), b=Scripted(models=DOWN)).plan()
    assert away.value.code == "PROVIDER_AWAY"
    assert away.value.retry_after_s == MODEL_LIST_AGAIN_S


# -- one call --------------------------------------------------------------------------------------------------------


async def test_a_call_streams_its_words_and_gets_the_models_own_name() -> None:
    provider = Scripted([TextDelta("o"), TextDelta(""), TextDelta("k"), DONE])
    made = pool(x=provider)
    heard: list[str] = []
    answer = await made.infer(await made.plan(), ASKED, heard.append)
    assert heard == ["o", "k"]
    assert (answer.completion, answer.choice) == (DONE, Choice("x", "m"))
    assert [model for _, model in provider.asked] == ["m"]
    assert provider.closed == 1


@pytest.mark.parametrize(
    ("model", "asked", "sent"),
    [
        ("claude-haiku-4-5", None, CONTEXT_OUTPUT_TOKENS),
        ("claude-haiku-4-5", 16, 16),
        ("claude-nobody-knows", None, None),
        ("claude-nobody-knows", 50_000, 50_000),
    ],
)
async def test_a_model_known_for_long_answers_may_give_them(model: str, asked: int | None, sent: int | None) -> None:
    provider = Scripted([DONE])
    made = Pool({"anthropic": Source("anthropic", provider)}, {"default": f"anthropic/{model}"})
    await made.infer(await made.plan(), msgspec.structs.replace(ASKED, max_output_tokens=asked))
    assert provider.bounds == [sent]


async def test_an_answer_says_what_it_cost() -> None:
    openai = Source("openai", Scripted([DONE]))
    made = Pool({"openai": openai}, {"default": "openai/gpt-4o"})
    assert (await made.infer(await made.plan(), ASKED)).cost_micros == 1_000 * 2.5 + 100 * 10
    mine = Source("x", Scripted([DONE]), corrections={"m": {"input_usd": 0.001, "output_usd": 0.0}})
    made = Pool({"x": mine}, {"default": "x/m"})
    assert (await made.infer(await made.plan(), ASKED)).cost_micros == 1
    made = pool(x=Scripted([DONE]))
    assert (await made.infer(await made.plan(), ASKED)).cost_micros == 0


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ((TextDelta("half"),), "STREAM_CUT"),
        ((DONE, DONE), "STREAM_CUT"),
        ((DONE, TextDelta("more")), "STREAM_CUT"),
        ((TextDelta("x" * REPLY_MAX_CHARS), TextDelta("x"), DONE), "REPLY_TOO_LARGE"),
    ],
)
async def test_a_stream_that_breaks_the_contract_is_tried_again_and_then_unavailable(
    script: tuple[StreamEvent, ...], code: str, autojump_clock: trio.testing.MockClock
) -> None:
    provider = Scripted(script)
    error, failures = await refused(pool(x=provider))
    assert (error.code, type(error)) == (code, UnavailableError)
    assert len(failures) == len(provider.asked) == provider.closed == MODEL_TRIES_MAX


@pytest.mark.parametrize(
    ("script", "after_s"),
    [
        ((MODEL_FIRST_TOKEN_S + 1, DONE), MODEL_FIRST_TOKEN_S),
        ((100.0, TextDelta("a"), MODEL_NEXT_TOKEN_S + 1, DONE), 100 + MODEL_NEXT_TOKEN_S),
        ((DONE, MODEL_NEXT_TOKEN_S + 1), MODEL_NEXT_TOKEN_S),
    ],
)
async def test_silence_ends_at_its_deadline(
    script: tuple[Step, ...], after_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    _, failures = await ask(pool(x=Scripted(script, [DONE])))
    assert [failure.error.code for failure in failures] == ["MODEL_SILENT"]
    assert trio.current_time() - began == pytest.approx(after_s + 1)


async def test_signs_of_life_hold_the_deadline_off(autojump_clock: trio.testing.MockClock) -> None:
    thinking = [step for _ in range(15) for step in (MODEL_NEXT_TOKEN_S - 1, TextDelta(""))]
    assert await ask(pool(x=Scripted([*thinking, DONE]))) == ("x/m", [])


async def test_a_cancelled_call_closes_its_stream_and_tells_nothing_of_the_provider(
    autojump_clock: trio.testing.MockClock,
) -> None:
    provider = Scripted([50.0, DONE])
    made = pool(x=provider)
    for _ in range(BREAKER_FAILURES + 1):
        with trio.move_on_after(1) as scope:
            await ask(made)
        assert scope.cancelled_caught
    assert provider.closed == BREAKER_FAILURES + 1
    assert await ask(made) == ("x/m", [])


async def test_stopping_a_streaming_call_leaves_the_provider_usable(nursery: trio.Nursery) -> None:
    async with FakeOpenAI.serve(nursery) as server:
        made = pool(fake=OpenAIProvider(ProviderConfig(name="fake", kind="openai", base_url=server.base_url)))
        server.enqueue("one two three", piece_delay_s=0.01)
        with trio.CancelScope() as scope:
            await made.infer(await made.plan(), ASKED, lambda _: scope.cancel())
        assert scope.cancelled_caught
        heard: list[str] = []
        on_delta: Callable[[str], None] = heard.append
        answer = await made.infer(await made.plan(), ASKED, on_delta)
        assert "".join(heard) == answer.completion.message.text == "echo: hi"
        await made.aclose()


# -- tries and fallbacks ---------------------------------------------------------------------------------------------


async def test_a_failure_that_may_pass_is_tried_again_and_told(autojump_clock: trio.testing.MockClock) -> None:
    provider = Scripted([TextDelta("void"), GARBLED], [DOWN], [DONE])
    who, failures = await ask(pool(x=provider))
    assert who == "x/m"
    assert [(failure.error.code, failure.retry_in_s) for failure in failures] == [
        ("MODEL_GARBLED", 1.0),
        ("PROVIDER_UNREACHABLE", 4.0),
    ]
    times = [at for at, _ in provider.asked]
    assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([1.0, 4.0])


async def test_a_pause_the_provider_asks_for_is_kept_while_it_is_short(autojump_clock: trio.testing.MockClock) -> None:
    soon = UnavailableError("RATE_LIMITED", "slow down", retry_after_s=7)
    began = trio.current_time()
    assert [failure.retry_in_s for failure in (await ask(pool(x=Scripted([soon], [DONE]))))[1]] == [7]
    assert trio.current_time() - began == pytest.approx(7)


async def test_a_provider_that_asks_for_a_long_pause_is_left_for_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    late = UnavailableError("RATE_LIMITED", "slow down", retry_after_s=MODEL_RETRY_AFTER_MAX_S + 1)
    limited = Scripted([late])
    assert (await ask(pool({"default": "x/m"}, ["y/n"], x=limited, y=Scripted([DONE]))))[0] == "y/n"
    assert len(limited.asked) == 1
    error, _ = await refused(pool(x=Scripted([late])))
    assert isinstance(error, AwayError)
    assert error.retry_after_s == MODEL_RETRY_AFTER_MAX_S + 1


@pytest.mark.parametrize("error", [DOWN, GARBLED, REFUSED, ForbiddenError("CREDIT_EXHAUSTED", "no credit")])
async def test_the_next_choice_answers_for_one_that_fails(
    error: DaycareError, autojump_clock: trio.testing.MockClock
) -> None:
    first = Scripted([error])
    who, failures = await ask(pool({"default": "x/m"}, ["y/n"], x=first, y=Scripted([DONE])))
    assert who == "y/n"
    assert len(first.asked) == (1 if isinstance(error, ForbiddenError) else MODEL_TRIES_MAX)
    assert {str(failure.choice) for failure in failures} == {"x/m"}
    assert failures[-1].retry_in_s == 0.0


async def test_a_silent_model_is_not_asked_again_while_there_is_another(autojump_clock: trio.testing.MockClock) -> None:
    silent = Scripted([1e9])
    began = trio.current_time()
    assert (await ask(pool({"default": "x/m"}, ["y/n"], x=silent, y=Scripted([DONE]))))[0] == "y/n"
    assert trio.current_time() - began == pytest.approx(MODEL_FIRST_TOKEN_S)


@pytest.mark.parametrize(
    "error",
    [
        InvalidError("MODEL_NOT_FOUND", "no such model"),
        InvalidError("REQUEST_REFUSED", "status 400"),
        InvalidError("CONTEXT_OVERFLOW", "too long"),
        BrokenError("VAULT_BROKEN", "the key file is gone"),
    ],
)
async def test_what_is_wrong_with_the_request_is_raised_as_it_is(error: DaycareError) -> None:
    first, second = Scripted([error]), Scripted([DONE])
    raised, failures = await refused(pool({"default": "x/m"}, ["y/n"], x=first, y=second))
    assert raised is error
    assert [(failure.error, failure.retry_in_s) for failure in failures] == [(error, None)]
    assert (len(first.asked), len(second.asked)) == (1, 0)


async def test_a_fallback_that_does_not_know_its_model_does_not_hide_the_outage(
    autojump_clock: trio.testing.MockClock,
) -> None:
    wrong = Scripted([InvalidError("MODEL_NOT_FOUND", "no such model")])
    error, failures = await refused(pool({"default": "x/m"}, ["y/n"], x=Scripted([DOWN]), y=wrong))
    assert isinstance(error, AwayError)
    assert failures[-1].retry_in_s is None
    small = Scripted([InvalidError("CONTEXT_OVERFLOW", "too long")])
    error, _ = await refused(pool({"default": "x/m"}, ["y/n"], x=Scripted([DOWN]), y=small))
    assert error.code == "CONTEXT_OVERFLOW"


async def test_refused_keys_of_all_choices_are_no_outage() -> None:
    credit = ForbiddenError("CREDIT_EXHAUSTED", "no credit")
    error, failures = await refused(pool({"default": "x/m"}, ["y/n"], x=Scripted([REFUSED]), y=Scripted([credit])))
    assert error is REFUSED
    assert [failure.retry_in_s for failure in failures] == [0.0, None]


async def test_all_tries_together_end_well_before_the_turn_does(autojump_clock: trio.testing.MockClock) -> None:
    talking = [step for _ in range(10_000) for step in (MODEL_NEXT_TOKEN_S - 1, TextDelta(""))]
    began = trio.current_time()
    error, failures = await refused(pool(x=Scripted([500.0], [DOWN], talking)))
    assert error.code == "PROVIDER_AWAY"
    assert [failure.error.code for failure in failures] == ["MODEL_SILENT", "PROVIDER_UNREACHABLE", "MODEL_LATE"]
    assert trio.current_time() - began == pytest.approx(MODEL_INFER_MAX_S)
    assert trio.current_time() - began < TURN_DEADLINE_S - MODEL_FIRST_TOKEN_S


async def test_no_key_stands_in_an_error_or_a_failure(autojump_clock: trio.testing.MockClock) -> None:
    hide("correct-horse-battery")
    leaky = UnavailableError("PROVIDER_FAILED", "status 500: key correct-horse-battery", hint="correct-horse-battery?")
    error, failures = await refused(pool(x=Scripted([leaky])))
    for told in (error, *(failure.error for failure in failures)):
        assert "horse" not in f"{told} {told.hint} {told!r}"


# -- outages ---------------------------------------------------------------------------------------------------------


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
    sources = {"flaky": Source("flaky", flaky), "spare": Source("spare", spare)}
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
        plan = (first, Choice("spare", "s")) if number % 2 else (first,)
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
    sources = {name: Source(name, provider) for name, provider in providers.items()}
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


# -- facts, listing, tests -------------------------------------------------------------------------------------------


def test_facts_are_those_of_the_vendor_that_an_address_means() -> None:
    work = Source("work", Scripted(), vendor=vendor_at("work", "openai", "https://api.openai.com/v1"))
    made = Pool({"work": work, "mine": Source("mine", Scripted())}, {})
    assert made.facts(Choice("work", "gpt-4o")).context_tokens == 128_000
    assert made.facts(Choice("mine", "gpt-4o")).input_usd is None
    assert vendor_at("claude", "anthropic", "") == "anthropic"
    assert vendor_at("openai", "openai", "http://127.0.0.1:8000/v1") == ""
    assert vendor_at("ollama", "openai", "http://10.0.0.2:11434/v1") == "ollama"


async def test_the_listing_tells_what_can_be_used_and_how_to_add_the_rest() -> None:
    keys = Keys()
    sources = {
        "offline": Source("offline", OfflineProvider()),
        "home": Source("home", Scripted(models=["b", "a"]), corrections={"b": {"context_tokens": 8_000}}),
        "down": Source("down", Scripted(models=DOWN)),
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
