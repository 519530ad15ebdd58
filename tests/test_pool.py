"""The pool: which model answers, and what it makes of providers that break the contract."""

from collections.abc import AsyncGenerator, Callable, Mapping

import pytest
import trio
import trio.testing

from daycare.base.errors import DaycareError, InvalidError, UnavailableError
from daycare.base.limits import MODEL_FIRST_TOKEN_S, MODEL_NEXT_TOKEN_S, REPLY_MAX_CHARS
from daycare.base.messages import Message, Text
from daycare.inference.offline import OfflineProvider
from daycare.inference.openai import OpenAIProvider
from daycare.inference.pool import Choice, Pool
from daycare.plugin import Completion, InferRequest, Provider, ProviderConfig, StreamEvent, TextDelta
from daycare.testing.openai_server import FakeOpenAI

ASKED = InferRequest(model="", system="", messages=(Message("user", (Text("hi"),)),))
DONE = Completion(message=Message("assistant", (Text("ok"),)), finish="stop")


class Scripted:
    """A provider that sleeps the numbers, yields the events and raises the errors of its script."""

    def __init__(self, *script: StreamEvent | float | DaycareError) -> None:
        self.name = "scripted"
        self.models_asked: list[str] = []
        self.closed = 0
        self._script = script

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        self.models_asked.append(request.model)
        try:
            for step in self._script:
                if isinstance(step, DaycareError):
                    raise step
                elif isinstance(step, float):
                    await trio.sleep(step)
                else:
                    yield step
        finally:
            self.closed += 1

    async def models(self) -> list[str]:
        return ["b", "a"]


def pool(*names: str, **models: str) -> Pool:
    return Pool({name: OfflineProvider(name) for name in names}, models)


async def ask(provider: Provider) -> tuple[list[str], Completion]:
    heard: list[str] = []
    done = await Pool({"x": provider}, {}).infer(Choice("x", "m"), ASKED, heard.append)
    return heard, done


# -- resolve ---------------------------------------------------------------------------------------------------------


def test_the_override_wins_over_the_role_and_the_role_over_the_default() -> None:
    made = pool("a", "b", default="a/one", user="b/two")
    assert made.resolve("user", "a/three") == Choice("a", "three")
    assert made.resolve("user") == Choice("b", "two")
    assert made.resolve("memorySearch") == made.resolve(None) == made.resolve() == Choice("a", "one")
    assert str(made.resolve()) == "a/one"


def test_only_the_first_part_of_a_name_is_the_providers() -> None:
    assert pool("router", default="router/acme/large:free").resolve() == Choice("router", "acme/large:free")


def test_a_name_without_prefix_is_the_only_providers() -> None:
    assert pool("a", default="one").resolve() == Choice("a", "one")


@pytest.mark.parametrize(
    ("providers", "models", "code", "words"),
    [
        (("a", "b"), {"default": "one"}, "MODEL_AMBIGUOUS", "a, b"),
        (("a", "b"), {"default": "c/one"}, "PROVIDER_NOT_CONFIGURED", "configured are: a, b"),
        ((), {"default": "c/one"}, "PROVIDER_NOT_CONFIGURED", "configured are: none"),
        (("a",), {"default": "acme/one"}, "PROVIDER_NOT_CONFIGURED", "daycare keys add acme"),
        (("a",), {"default": "a/"}, "MODEL_NOT_CONFIGURED", "a/"),
        (("a",), {}, "MODEL_NOT_CONFIGURED", "default"),
        (("a",), {"memory": "a/one"}, "MODEL_NOT_CONFIGURED", "user"),
    ],
)
def test_what_cannot_be_resolved_says_what_there_is(
    providers: tuple[str, ...], models: Mapping[str, str], code: str, words: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        pool(*providers, **models).resolve("user")
    assert caught.value.code == code
    assert words in str(caught.value)


def test_an_unknown_role_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidError, match="usr"):
        pool("a", usr="a/one")


# -- infer -----------------------------------------------------------------------------------------------------------


async def test_a_call_streams_its_words_and_gets_the_models_own_name() -> None:
    provider = Scripted(TextDelta("o"), TextDelta(""), TextDelta("k"), DONE)
    assert await ask(provider) == (["o", "k"], DONE)
    assert provider.models_asked == ["m"]
    assert provider.closed == 1


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ((), "STREAM_CUT"),
        ((TextDelta("half"),), "STREAM_CUT"),
        ((DONE, DONE), "STREAM_CUT"),
        ((DONE, TextDelta("more")), "STREAM_CUT"),
        ((TextDelta("x" * REPLY_MAX_CHARS), TextDelta("x"), DONE), "REPLY_TOO_LARGE"),
    ],
)
async def test_a_stream_that_breaks_the_contract_is_unavailable(script: tuple[StreamEvent, ...], code: str) -> None:
    provider = Scripted(*script)
    with pytest.raises(UnavailableError) as caught:
        await ask(provider)
    assert caught.value.code == code
    assert provider.closed == 1


@pytest.mark.parametrize(
    ("script", "after_s"),
    [
        ((MODEL_FIRST_TOKEN_S + 1, DONE), MODEL_FIRST_TOKEN_S),
        ((100.0, TextDelta("a"), MODEL_NEXT_TOKEN_S + 1, DONE), 100 + MODEL_NEXT_TOKEN_S),
        ((DONE, MODEL_NEXT_TOKEN_S + 1), MODEL_NEXT_TOKEN_S),
    ],
)
async def test_silence_ends_at_its_deadline(
    script: tuple[StreamEvent | float, ...], after_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    start = trio.current_time()
    with pytest.raises(UnavailableError) as caught:
        await ask(Scripted(*script))
    assert caught.value.code == "MODEL_SILENT"
    assert trio.current_time() - start == pytest.approx(after_s)


async def test_signs_of_life_hold_the_deadline_off(autojump_clock: trio.testing.MockClock) -> None:
    thinking = [step for _ in range(50) for step in (MODEL_NEXT_TOKEN_S - 1, TextDelta(""))]
    assert await ask(Scripted(*thinking, DONE)) == ([], DONE)


async def test_a_providers_own_error_passes_and_its_generator_is_closed() -> None:
    error = UnavailableError("RATE_LIMITED", "slow down", retry_after_s=7)
    provider = Scripted(TextDelta("a"), error)
    with pytest.raises(UnavailableError) as caught:
        await ask(provider)
    assert caught.value is error
    assert provider.closed == 1


async def test_a_cancelled_call_closes_its_stream(autojump_clock: trio.testing.MockClock) -> None:
    provider = Scripted(TextDelta("a"), 50.0, DONE)
    with trio.move_on_after(1) as scope:
        await ask(provider)
    assert scope.cancelled_caught
    assert provider.closed == 1


async def test_models_of_all_providers_are_listed_and_connections_closed(nursery: trio.Nursery) -> None:
    async with FakeOpenAI.serve(nursery) as server:
        fake = OpenAIProvider(ProviderConfig(name="fake", kind="openai", base_url=server.base_url))
        made = Pool({"offline": OfflineProvider(), "fake": fake}, {"default": "fake/fake-small"})
        heard: list[str] = []
        on_delta: Callable[[str], None] = heard.append
        done = await made.infer(made.resolve("user"), ASKED, on_delta)
        assert await made.models() == ["fake/fake-large", "fake/fake-small", "offline/rules"]
        await made.aclose()
    assert "".join(heard) == done.message.text == "echo: hi"


async def test_stopping_a_streaming_call_leaves_the_provider_usable(nursery: trio.Nursery) -> None:
    async with FakeOpenAI.serve(nursery) as server:
        fake = OpenAIProvider(ProviderConfig(name="fake", kind="openai", base_url=server.base_url))
        made = Pool({"fake": fake}, {"default": "small"})
        server.enqueue("one two three", piece_delay_s=0.01)
        with trio.CancelScope() as scope:
            await made.infer(made.resolve(), ASKED, lambda text: scope.cancel())
        assert scope.cancelled_caught
        assert (await made.infer(made.resolve(), ASKED, lambda text: None)).message.text == "echo: hi"
        await made.aclose()
