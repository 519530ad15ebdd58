"""The pool's plans: which model answers for which role, and what a name without a provider means."""

from collections.abc import Mapping

import pytest
import trio
import trio.testing

from daycare.base.errors import AwayError, InvalidError, SetupError
from daycare.base.limits import MODEL_LIST_AGAIN_S
from daycare.inference.pool import ModelChoice, Pool
from daycare.inference.sources import MODEL_LIST_DEADLINE_S, MODEL_LIST_KEEP_S, ProviderSource
from tests.inference.pools import DONE, DOWN, Keys, Scripted, pool

# -- plan --------------------------------------------------------------------------------------------------------------


async def test_the_override_wins_over_the_role_and_the_role_over_the_default() -> None:
    made = pool({"default": "a/one", "user": "b/two"}, a=Scripted(), b=Scripted())
    assert await made.plan("user", "a/three") == (ModelChoice("a", "three"),)
    assert await made.plan("user") == (ModelChoice("b", "two"),)
    assert await made.plan("memorySearch") == await made.plan(None) == (ModelChoice("a", "one"),)
    assert str((await made.plan())[0]) == "a/one"


async def test_only_the_first_part_of_a_name_is_the_providers() -> None:
    made = pool({"default": "router/acme/large:free"}, router=Scripted())
    assert await made.plan() == (ModelChoice("router", "acme/large:free"),)


async def test_fallbacks_follow_in_order_each_once() -> None:
    made = pool({"default": "a/m"}, ["b/x", "a/m", "c/y", "b/x"], a=Scripted(), b=Scripted(), c=Scripted())
    assert list(map(str, await made.plan())) == ["a/m", "b/x", "c/y"]


async def test_fallbacks_that_cannot_be_called_are_left_out() -> None:
    keys = Keys()
    made = Pool(
        {"a": ProviderSource("a", Scripted()), "b": keys.source("b", Scripted())},
        {"default": "a/m"},
        ["b/x", "nobody/y"],
    )
    assert await made.plan() == (ModelChoice("a", "m"),)
    keys["b"] = True
    assert await made.plan() == (ModelChoice("a", "m"), ModelChoice("b", "x"))


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
    sources = {name: ProviderSource(name, Scripted()) for name in ("a", "b")}
    with pytest.raises(SetupError) as caught:
        await Pool(sources, models).plan("user")
    assert caught.value.code == code
    assert words in str(caught.value)


async def test_a_provider_without_its_key_is_found_before_any_call_and_a_new_key_counts_at_once() -> None:
    keys = Keys()
    paid = Scripted([DONE])
    made = Pool({"paid": keys.source("paid", paid, given=False)}, {"default": "paid/m"})
    for _ in range(2):
        with pytest.raises(SetupError) as caught:
            await made.plan()
        assert caught.value.code == "PROVIDER_NOT_CONFIGURED"
        assert "paid has no key; configured are: none" in caught.value.message
        assert caught.value.hint == "daycare keys add paid"
        keys["paid"] = True
        assert await made.plan() == (ModelChoice("paid", "m"),)
        keys["paid"] = False
    assert paid.asked == []
    assert paid.listed == 0


def test_an_unknown_role_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidError, match="usr"):
        pool({"usr": "a/one"}, a=Scripted())


# -- names without prefix ----------------------------------------------------------------------------------------------


async def test_a_vendors_model_belongs_to_the_vendor_if_it_has_a_key() -> None:
    keys = Keys(openai=True)
    openai, anthropic = Scripted(), Scripted()
    sources = {
        "openai": keys.source("openai", openai, given=False),
        "anthropic": keys.source("anthropic", anthropic, given=False),
    }
    made = Pool(sources, {"default": "gpt-5-mini"})
    assert await made.plan() == (ModelChoice("openai", "gpt-5-mini"),)
    with pytest.raises(SetupError) as caught:
        await made.plan(override="claude-sonnet-5-5")
    assert (caught.value.code, caught.value.hint) == ("PROVIDER_NOT_CONFIGURED", "daycare keys add anthropic")
    keys["anthropic"] = True
    assert await made.plan(override="claude-sonnet-5-5") == (ModelChoice("anthropic", "claude-sonnet-5-5"),)
    assert openai.listed + anthropic.listed <= 1


async def test_a_name_belongs_to_the_first_configured_provider_that_has_it() -> None:
    made = pool(
        {"default": "qwen3:8b"},
        a=Scripted(models=["x"]),
        b=Scripted(models=["qwen3:8b"]),
        c=Scripted(models=["qwen3:8b"]),
    )
    assert await made.plan() == (ModelChoice("b", "qwen3:8b"),)
    assert await made.plan(override="x") == (ModelChoice("a", "x"),)


async def test_ollamas_latest_need_not_be_written() -> None:
    assert await pool({"default": "llama3.2"}, o=Scripted(models=["llama3.2:latest"])).plan() == (
        ModelChoice("o", "llama3.2"),
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
    assert await made.plan() == (ModelChoice("a", "m"),)  # the old list is better than none
    assert provider.listed == 2


async def test_providers_that_do_not_answer_are_passed_over_and_not_asked_all_the_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    slow, down = Scripted(models=1e9), Scripted(models=DOWN)
    made = pool({"default": "m"}, slow=slow, down=down, there=Scripted(models=["m"]))
    began = trio.current_time()
    for _ in range(10):
        assert await made.plan() == (ModelChoice("there", "m"),)
    assert trio.current_time() - began == pytest.approx(MODEL_LIST_DEADLINE_S)
    assert (slow.listed, down.listed) == (1, 1)


async def test_a_model_nobody_has_is_refused_but_waited_for_while_somebody_is_silent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(SetupError) as unknown:
        await pool({"default": "m"}, a=Scripted(models=["x"])).plan()
    assert unknown.value.code == "MODEL_UNKNOWN"
    with pytest.raises(AwayError) as away:
        await pool({"default": "m"}, a=Scripted(models=["x"]), b=Scripted(models=DOWN)).plan()
    assert away.value.code == "PROVIDER_AWAY"
    assert away.value.retry_after_s == MODEL_LIST_AGAIN_S
