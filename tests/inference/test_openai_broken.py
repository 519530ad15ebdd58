"""The OpenAI-compatible provider against replies that are cut, broken, too large or too slow, over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
import trio
import trio.testing

from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.limits import (
    MODEL_FIRST_TOKEN_S,
    MODEL_INFER_MAX_S,
    MODEL_NEXT_TOKEN_S,
    MODEL_THOUGHT_MAX_CHARS,
    REPLY_MAX_CHARS,
)
from daycare.inference.openai import OpenAIProvider
from daycare.testing.model_server import web_page
from daycare.testing.openai_server import FakeOpenAI
from tests.inference.wire import config, failure, run


@pytest.fixture
async def server(nursery: trio.Nursery) -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI.serve(nursery) as server:
        yield server


@asynccontextmanager
async def provider(base_url: str) -> AsyncIterator[OpenAIProvider]:
    made = OpenAIProvider(config("openai", base_url))
    try:
        yield made
    finally:
        await made.aclose()


async def test_a_stream_cut_at_any_byte_never_yields_a_completion(server: FakeOpenAI) -> None:
    """Cut anywhere before the frame that says why it ended, the reply is an error, not a part of one."""
    async with provider(server.base_url) as made:
        for cut in range(1, 1_000, 37):
            server.enqueue("Sure.", tool_calls=[("remind", {"after_s": 600, "text": "stretch " * 10})])
            server._script[-1] = msgspec.structs.replace(server._script[-1], cut_after_bytes=cut)
            error = await failure(made)
            assert isinstance(error, UnavailableError), cut
            assert error.code == "STREAM_CUT", cut


async def test_a_stream_that_ends_without_reason_is_cut(server: FakeOpenAI) -> None:
    server.enqueue("half a", tool_calls=[("remind", {})], finish="")
    async with provider(server.base_url) as made:
        assert (await failure(made)).code == "STREAM_CUT"


async def test_a_stream_cut_after_the_reason_is_whole(server: FakeOpenAI) -> None:
    frame = b'data: {"choices":[{"delta":{"content":"done"},"finish_reason":"stop"}]}\n\ndata: {"usa'
    server.enqueue(raw=frame, cut_after_bytes=len(frame))
    async with provider(server.base_url) as made:
        assert (await run(made))[1].message.text == "done"


async def test_done_alone_ends_a_reply(server: FakeOpenAI) -> None:
    server.enqueue(raw=b'\xef\xbb\xbf: hello\n\ndata: {"choices":[{"delta":{"content":"ok"}}]}\n\ndata: [DONE]\n\n')
    async with provider(server.base_url) as made:
        assert (await run(made))[1].finish == "stop"


@pytest.mark.parametrize("arguments", ['{"after_s": 1', "[1]", "nonsense", "\x00", "[" * 5000])
async def test_tool_arguments_that_are_no_json_object_are_garbled(server: FakeOpenAI, arguments: str) -> None:
    server.enqueue("Sure.", tool_calls=[("remind", arguments)])
    async with provider(server.base_url) as made:
        error = await failure(made)
    assert isinstance(error, UnavailableError)
    assert error.code == "MODEL_GARBLED"


async def test_no_arguments_are_an_empty_object(server: FakeOpenAI) -> None:
    server.enqueue(tool_calls=[("remind", "")])
    async with provider(server.base_url) as made:
        assert (await run(made))[1].message.tool_calls[0].arguments == {}


async def test_a_reply_cut_by_the_token_limit_keeps_its_text_and_drops_half_a_call(server: FakeOpenAI) -> None:
    server.enqueue("As far as", tool_calls=[("remind", '{"aft')], finish="length")
    server.enqueue("I would", finish="content_filter")
    async with provider(server.base_url) as made:
        _, done = await run(made)
        _, refused = await run(made)
    assert (done.finish, done.message.text, done.message.tool_calls) == ("length", "As far as", ())
    assert refused.finish == "refused"


CALL_BEGUN = (
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"n","arguments":""}}]}}]}\n\n'
)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"data: <html>\n\n", "MODEL_GARBLED"),
        (b'data: {"choices": 7}\n\n', "MODEL_GARBLED"),
        (b"data: \xff\xfe\n\n", "MODEL_GARBLED"),
        (b"data: " + b"[" * 5000 + b"\n\n", "MODEL_GARBLED"),
        (b"data: " + b"x" * 3_000_000, "MODEL_GARBLED"),
        (b"data: x\n" * 1_000_000, "MODEL_GARBLED"),
        (b'data: {"error": {"message": "out of memory"}}\n\n', "MODEL_FAILED"),
        (b'data: {"error": {"message": "prompt is too long"}}\n\n', "CONTEXT_OVERFLOW"),
        (b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n', "MODEL_GARBLED"),
        (b'data: {"choices":[{"delta":{"content":["a"]}}]}\n\n', "MODEL_GARBLED"),
        (b'data: {"choices":[{"delta":{"tool_calls":[{"index":"0"}]}}]}\n\n', "MODEL_GARBLED"),
        (CALL_BEGUN + b'data: {"choices":[{"delta":{"tool_qalls":[]}}]}\n\n', "MODEL_GARBLED"),
        (CALL_BEGUN + b'data: {"shoices":[]}\n\n', "MODEL_GARBLED"),
        (CALL_BEGUN + b'data: {"choices":[{"delta":{"tool_calls":[{"function":{}}]}}]}\n\n', "MODEL_GARBLED"),
        (
            CALL_BEGUN + b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]}\n\n',
            "MODEL_GARBLED",
        ),
        (b"\x00" * 1000, "STREAM_CUT"),
        (b"", "STREAM_CUT"),
    ],
)
async def test_garbage_is_an_error_of_ours(server: FakeOpenAI, raw: bytes, code: str) -> None:
    server.enqueue(raw=raw)
    async with provider(server.base_url) as made:
        error = await failure(made)
        assert error.code == code
        assert type(error) is (InvalidError if code == "CONTEXT_OVERFLOW" else UnavailableError)
        _, done = await run(made)  # and the provider is as good as before
    assert done.message.text == "echo: hi"


async def test_a_web_page_is_no_answer(server: FakeOpenAI) -> None:
    server.enqueue(web_page())
    server.enqueue(web_page(502, "<html>" + "x" * 100_000))
    async with provider(server.base_url) as made:
        first, second = await failure(made), await failure(made)
    assert first.code == "MODEL_GARBLED"
    assert "base_url" in first.hint
    assert second.code == "PROVIDER_FAILED"
    assert len(str(second)) < 500


async def test_an_endless_reply_ends_at_the_bound(server: FakeOpenAI) -> None:
    frame = b'data: {"choices":[{"delta":{"content":"' + b"y" * 10_000 + b'"}}]}\n\n'
    server.enqueue(raw=frame * 1_000)  # ten megabytes
    async with provider(server.base_url) as made:
        pieces, done = await run(made)
    assert done.finish == "length"
    assert len("".join(pieces)) == len(done.message.text) == REPLY_MAX_CHARS


async def test_a_thought_without_end_ends(server: FakeOpenAI) -> None:
    frame = b'data: {"choices":[{"delta":{"reasoning":"' + b"y" * 100_000 + b'"}}]}\n\n'
    server.enqueue(raw=frame * (MODEL_THOUGHT_MAX_CHARS // 100_000))
    async with provider(server.base_url) as made:
        _, done = await run(made)
    assert (done.finish, done.message.parts) == ("length", ())


async def test_a_reply_that_trickles_without_end_ends_at_its_deadline(
    server: FakeOpenAI, autojump_clock: trio.testing.MockClock
) -> None:
    server.enqueue("word " * 1_000, piece_delay_s=MODEL_NEXT_TOKEN_S - 1)
    async with provider(server.base_url) as made:
        assert (await failure(made)).code == "MODEL_SILENT"
    assert trio.current_time() == pytest.approx(MODEL_INFER_MAX_S, abs=1.0)


# -- silence ---------------------------------------------------------------------------------------------------------


async def test_silence_before_and_within_a_reply_ends_at_its_deadline(
    server: FakeOpenAI, autojump_clock: trio.testing.MockClock
) -> None:
    async with provider(server.base_url) as made:
        server.enqueue("late", delay_s=MODEL_FIRST_TOKEN_S + 1)
        start = trio.current_time()
        first = await failure(made)
        assert trio.current_time() - start == pytest.approx(MODEL_FIRST_TOKEN_S, abs=0.1)
        server.enqueue("very slow", piece_delay_s=MODEL_NEXT_TOKEN_S + 1)
        start = trio.current_time()
        second = await failure(made)
        assert trio.current_time() - start == pytest.approx(2 * MODEL_NEXT_TOKEN_S + 1, abs=0.1)
    assert (type(first), first.code, second.code) == (UnavailableError, "MODEL_SILENT", "MODEL_SILENT")


async def test_a_slow_reply_that_keeps_coming_is_no_silence(
    server: FakeOpenAI, autojump_clock: trio.testing.MockClock
) -> None:
    server.enqueue(tool_calls=[("remind", {"text": "z" * 100})], piece_delay_s=MODEL_NEXT_TOKEN_S - 5)
    async with provider(server.base_url) as made:
        _, done = await run(made)
    assert done.finish == "tools"
    assert trio.current_time() > 10 * MODEL_NEXT_TOKEN_S


async def test_an_answer_that_is_compressed_although_it_was_not_to_be_is_an_error() -> None:
    async def compressed(stream: trio.abc.Stream) -> None:
        async with stream:
            await stream.receive_some(65_536)
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx")

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(partial(trio.serve_listeners, compressed, [listener]))
        port = listener.socket.getsockname()[1]
        error = await failure(OpenAIProvider(config("openai", f"http://127.0.0.1:{port}/v1")))
        nursery.cancel_scope.cancel()
    assert error.code == "MODEL_GARBLED" and "compressed" in error.message
