"""One call of the pool: its deadlines, what is tried again and where it ends, and what falls back to what."""

from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest
import trio
import trio.testing

from daycare.base.errors import AwayError, BrokenError, DaycareError, ForbiddenError, InvalidError, UnavailableError
from daycare.base.limits import (
    CONTEXT_OUTPUT_TOKENS,
    MODEL_FIRST_TOKEN_S,
    MODEL_INFER_MAX_S,
    MODEL_NEXT_TOKEN_S,
    REPLY_MAX_CHARS,
    TURN_DEADLINE_S,
)
from daycare.inference.breaker import BREAKER_FAILURES
from daycare.inference.call import PIECES_AT_ONCE
from daycare.inference.openai import OpenAIProvider
from daycare.inference.pool import MODEL_RETRY_AFTER_MAX_S, MODEL_TRIES_MAX, ModelChoice, Pool
from daycare.inference.sources import ProviderSource
from daycare.observe.redact import hide
from daycare.plugin import ProviderConfig, StreamEvent, TextDelta
from daycare.testing.openai_server import FakeOpenAI
from tests.inference.pools import ASKED, DONE, DOWN, GARBLED, REFUSED, Scripted, Step, ask, pool, refused

# -- one call ----------------------------------------------------------------------------------------------------------


async def test_a_call_streams_its_words_and_gets_the_models_own_name() -> None:
    provider = Scripted([TextDelta("o"), TextDelta(""), TextDelta("k"), DONE])
    made = pool(x=provider)
    heard: list[str] = []
    answer = await made.infer(await made.plan(), ASKED, heard.append)
    assert heard == ["o", "k"]
    assert (answer.completion, answer.choice) == (DONE, ModelChoice("x", "m"))
    assert [model for _, model in provider.asked] == ["m"]
    assert provider.closed == 1


async def test_a_stream_that_never_waits_lets_others_have_their_turn() -> None:
    made = pool(x=Scripted([*[TextDelta("x")] * 3_200, DONE]))
    turns: list[int] = []  # how much of the answer was there at each turn of another task
    heard: list[str] = []

    async def others() -> None:
        while True:
            turns.append(len(heard))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await made.infer(await made.plan(), ASKED, heard.append)
        nursery.cancel_scope.cancel()
    assert max(b - a for a, b in pairwise(turns)) <= 2 * PIECES_AT_ONCE  # trio shuffles who is next


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
    made = Pool({"anthropic": ProviderSource("anthropic", provider)}, {"default": f"anthropic/{model}"})
    await made.infer(await made.plan(), msgspec.structs.replace(ASKED, max_output_tokens=asked))
    assert provider.bounds == [sent]


async def test_an_answer_says_what_it_cost() -> None:
    openai = ProviderSource("openai", Scripted([DONE]))
    made = Pool({"openai": openai}, {"default": "openai/gpt-4o"})
    assert (await made.infer(await made.plan(), ASKED)).cost_micros == 1_000 * 2.5 + 100 * 10
    mine = ProviderSource("x", Scripted([DONE]), corrections={"m": {"input_usd": 0.001, "output_usd": 0.0}})
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


# -- tries and fallbacks -----------------------------------------------------------------------------------------------


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
