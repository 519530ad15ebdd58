"""What the providers send is what the vendors' types allow, and their clients read what the fake servers answer.

Their packages are imported by the tests that need them: that takes seconds, in every process that collects tests.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
import trio

from daycare.base.messages import Image, Message, Part, Text, ToolCall, ToolResult
from daycare.inference.anthropic import AnthropicProvider
from daycare.inference.audio import AudioServer
from daycare.inference.openai import OpenAIProvider
from daycare.plugin import InferRequest, OutputSpec, ToolSpec
from daycare.testing.anthropic_server import FakeAnthropic
from daycare.testing.openai_audio import tone
from daycare.testing.openai_server import FakeOpenAI
from tests.inference.wire import AnyProvider, config, run
from tests.judges.types import faults, strict

KEY: Final = "sk-judge"
SCHEMA: Final = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
REMIND: Final = ToolSpec(name="remind", description="Remind later", schema=SCHEMA)
# Of these the vendor's own types know nothing: servers that speak OpenAI's protocol brought the first, and the second
# belongs to version 2023-06-01 of Anthropic's API, which the provider asks for; from 2026-10-21 on it is refused.
EXTENSIONS: Final = {"openai": {"reasoning_content"}, "anthropic": {"temperature"}}


def _said(role: Any, *parts: Part) -> Message:
    return Message(role, parts)


def _asked(*messages: Message, **more: Any) -> InferRequest:
    return InferRequest(model="fake-small", system="Be kind.", messages=messages, **more)


def _called(*names: str) -> tuple[Message, Message]:
    calls = tuple(ToolCall(name, "remind", {"x": name}) for name in names)
    results = tuple(ToolResult(call_id=name, name="remind", text=f"ok {name}") for name in names)
    return _said("assistant", Text("I look."), *calls), _said("tool", *results)


GO: Final = _said("user", Text("go"))
REQUESTS: Final = {
    "words": _asked(GO),
    "a conversation": _asked(GO, _said("assistant", Text("gone")), _said("user", Text("again"))),
    "people after each other": _asked(GO, _said("user", Text("and back"))),
    "settings": _asked(GO, max_output_tokens=2_000, temperature=0.5),
    "tools on offer": _asked(GO, tools=(REMIND,)),
    "calls and results": _asked(GO, *_called("a", "b"), tools=(REMIND,)),
    "calls without a word": _asked(
        GO,
        _said("assistant", ToolCall("a", "remind", {})),
        _said("tool", ToolResult(call_id="a", name="remind", text="", status="error")),
        tools=(REMIND,),
    ),
    "an uncertain result": _asked(
        GO,
        _said("assistant", ToolCall("a", "remind", {"x": "\u00fc"})),
        _said("tool", ToolResult(call_id="a", name="remind", text="?", status="uncertain")),
        tools=(REMIND,),
    ),
    "calls of an earlier turn": _asked(*_called("a"), _said("assistant", Text("done")), GO, tools=(REMIND,)),
    "the last step": _asked(GO, *_called("a")),
    "a picture": _asked(_said("user", Text("look"), Image("image/png", b"\x89PNG"))),
    "an object wanted": _asked(GO, output=OutputSpec(name="found", schema=SCHEMA | {"additionalProperties": False})),
    "a loose object wanted": _asked(GO, output=OutputSpec(name="found", schema={"type": "object"})),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_what_a_provider_sends_is_what_the_vendors_types_allow(
    protocol: str, name: str, nursery: trio.Nursery
) -> None:
    body = await _sent(protocol, REQUESTS[name], nursery)
    judge = strict(f"{protocol}.types", _kind(protocol))
    assert faults(judge, body) == []
    assert faults(judge, body | {"never": 1}), "the judge sees a field that there is not"
    assert faults(judge, {each: value for each, value in body.items() if each != "messages"})


def _kind(protocol: str) -> Any:
    """Return the vendor's type of a request."""
    if protocol == "openai":
        from openai.types.chat import completion_create_params

        return completion_create_params.CompletionCreateParams
    from anthropic.types import message_create_params

    return message_create_params.MessageCreateParams


async def _sent(protocol: str, asked: InferRequest, nursery: trio.Nursery) -> dict[str, Any]:
    """Return the body that a provider sends."""
    made: AnyProvider
    if protocol == "openai":
        async with FakeOpenAI.serve(nursery) as server:
            made = OpenAIProvider(config(protocol, server.base_url))
            await run(made, asked)
            await made.aclose()
            body = server.history[0].body
    else:
        async with FakeAnthropic.serve(nursery) as strict_server:
            made = AnthropicProvider(config(protocol, strict_server.base_url))
            await run(made, asked)
            await made.aclose()
            body = strict_server.history[0].body
    extended = EXTENSIONS[protocol]
    plain = [{name: it for name, it in each.items() if name not in extended} for each in body["messages"]]
    return {name: it for name, it in body.items() if name not in extended} | {"messages": plain}


# -- the vendors' clients against the fake servers -------------------------------------------------------------------


async def _asks(call: Callable[[], Any]) -> Any:
    return await trio.to_thread.run_sync(call)


async def test_openais_client_reads_what_the_fake_server_answers(nursery: trio.Nursery) -> None:
    import openai

    async with FakeOpenAI.serve(nursery) as server, AsyncExitStack() as closing:
        client = closing.enter_context(openai.OpenAI(base_url=server.base_url, api_key=KEY, max_retries=0))
        say: Any = {"model": "fake-small", "messages": [{"role": "user", "content": "hi"}]}

        def streamed() -> list[Any]:
            return list(client.chat.completions.create(**say, stream=True, stream_options={"include_usage": True}))

        server.enqueue("Gr\u00fc\u00dfe", tool_calls=[("remind", {"x": "tea"})])
        whole = await _asks(lambda: client.chat.completions.create(**say))
        assert faults(strict("openai.types", type(whole)), whole.to_dict()) == []
        [choice] = whole.choices
        assert (choice.message.content, choice.finish_reason) == ("Gr\u00fc\u00dfe", "tool_calls")
        assert choice.message.tool_calls[0].function.arguments == '{"x":"tea"}'

        server.enqueue("one two", tool_calls=[("remind", {"x": "tea"}), ("remind", {"x": "milk"})])
        chunks = await _asks(streamed)
        assert [wrong for each in chunks for wrong in faults(strict("openai.types", type(each)), each.to_dict())] == []
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        assert "".join(delta.content or "" for delta in deltas) == "one two"
        arguments = {0: "", 1: ""}
        for call in [call for delta in deltas for call in delta.tool_calls or []]:
            arguments[call.index] += call.function.arguments
        assert arguments == {0: '{"x":"tea"}', 1: '{"x":"milk"}'}
        assert chunks[-1].usage.completion_tokens == 2
        assert [model.id for model in await _asks(lambda: list(client.models.list()))] == ["fake-large", "fake-small"]
        for status, kind in (
            (400, openai.BadRequestError), (401, openai.AuthenticationError), (404, openai.NotFoundError),
            (429, openai.RateLimitError), (500, openai.InternalServerError),
        ):  # fmt: skip
            server.enqueue("no", status=status)
            with pytest.raises(kind, match="no"):
                await _asks(lambda: client.chat.completions.create(**say))


async def test_anthropics_client_reads_what_the_fake_server_answers(nursery: trio.Nursery) -> None:
    import anthropic

    async with FakeAnthropic.serve(nursery) as server, AsyncExitStack() as closing:
        client = closing.enter_context(anthropic.Anthropic(base_url=server.base_url, api_key=KEY, max_retries=0))
        say: Any = {"model": "fake-small", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}

        def streamed() -> Any:
            with client.messages.stream(**say) as stream:
                list(stream)
                return stream.get_final_message()

        for ask in (streamed, lambda: client.messages.create(**say)):
            server.enqueue("one two", thinking="hm", tool_calls=[("remind", {"x": "tea"}), ("remind", {"x": "milk"})])
            message = await _asks(ask)
            assert faults(strict("anthropic.types", type(message)), message.to_dict()) == []
            thought, text, *calls = message.content
            assert (thought.thinking.strip(), text.text, message.stop_reason) == ("hm", "one two", "tool_use")
            assert [call.input for call in calls] == [{"x": "tea"}, {"x": "milk"}]
            assert message.usage.output_tokens > 0
        assert [model.id for model in await _asks(lambda: list(client.models.list()))] == ["fake-large", "fake-small"]
        for status, kind in (
            (400, anthropic.BadRequestError), (401, anthropic.AuthenticationError), (404, anthropic.NotFoundError),
            (429, anthropic.RateLimitError), (529, anthropic.InternalServerError),
        ):  # fmt: skip
            server.enqueue("no", status=status)
            with pytest.raises(kind, match="no"):
                await _asks(lambda: client.messages.create(**say))


# -- sound -------------------------------------------------------------------------------------------------------------


async def test_what_is_asked_of_sound_is_what_openais_types_allow(nursery: trio.Nursery) -> None:
    from openai.types.audio import speech_create_params, transcription_create_params

    async with FakeOpenAI.serve(nursery) as server:
        ears = AudioServer(config("openai", server.base_url), server.base_url)
        assert (
            await ears.transcribe("whisper-1", "note.wav", "audio/wav", tone("hello", "wav"), "de")
        ).language == "de"
        await ears.transcribe("gpt-4o-transcribe", "note.wav", "audio/wav", tone("hello", "wav"))
        assert (await ears.speak("tts-1", "alloy", "hello", "ogg")).startswith(b"OggS")
        await ears.aclose()
        noted = ("file", "bytes")  # what the fake notes of the upload, in place of it
        *heard, spoken = [{k: v for k, v in each.body.items() if k not in noted} for each in server.history]
    whole = strict("openai.types", transcription_create_params.TranscriptionCreateParamsNonStreaming)
    for body in heard:
        assert faults(whole, body | {"file": b"RIFF"}) == []
        assert faults(whole, body | {"file": b"RIFF", "never": 1})
    speech = strict("openai.types", speech_create_params.SpeechCreateParams)
    assert faults(speech, spoken) == []
    assert faults(speech, spoken | {"response_format": "never"})


async def test_openais_client_hears_and_speaks_with_the_fake_server(nursery: trio.Nursery) -> None:
    import openai

    async with FakeOpenAI.serve(nursery) as server, AsyncExitStack() as closing:
        client = closing.enter_context(openai.OpenAI(base_url=server.base_url, api_key=KEY, max_retries=0))
        server.hear = lambda upload: f"{upload.filename} says Gr\u00fc\u00dfe"
        note = ("note.wav", tone("hello", "wav"))
        short = await _asks(lambda: client.audio.transcriptions.create(model="gpt-4o-transcribe", file=note))
        assert short.text == "note.wav says Gr\u00fc\u00dfe"
        assert faults(strict("openai.types", type(short)), short.to_dict()) == []
        long = await _asks(
            lambda: client.audio.transcriptions.create(model="whisper-1", file=note, response_format="verbose_json")
        )
        assert (long.text, long.language) == (short.text, "english")
        assert faults(strict("openai.types", type(long)), long.to_dict()) == []
        sound = await _asks(
            lambda: client.audio.speech.create(model="tts-1", voice="alloy", input="hi", response_format="opus").content
        )
        assert sound.startswith(b"OggS")
        with pytest.raises(openai.BadRequestError, match="not compatible"):
            await _asks(
                lambda: client.audio.transcriptions.create(
                    model="gpt-4o-transcribe", file=note, response_format="verbose_json"
                )
            )
