"""Whatever JSON a server sends as a frame: it is understood, refused with a `ValueError`, or an error it reports."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base.sse import SseEvent
from daycare.inference import chat_reply, messages_reply
from daycare.inference.http import ProviderReply
from daycare.inference.refusals import Refused, explain
from daycare.plugin import Completion, InferRequest
from tests.inference.wire import request

WORDS = {
    "openai": (
        *("model", "choices", "usage", "error", "index", "delta", "message", "finish_reason", "content", "tool_calls"),
        *("id", "function", "name", "arguments", "stop", "prompt_tokens", "prompt_tokens_details", "reasoning"),
    ),
    "anthropic": (
        *("type", "index", "message", "content_block", "delta", "usage", "error", "text", "tool_use", "thinking"),
        *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"),
        *("message_stop", "ping", "text_delta", "input_json_delta", "partial_json", "stop_reason", "id", "name"),
        *("input", "input_tokens", "signature", "{}"),
    ),
}
REPLIES: dict[str, Callable[[InferRequest], ProviderReply]] = {
    "openai": chat_reply.ChatReply,
    "anthropic": messages_reply.MessagesReply,
}


def json_of(words: tuple[str, ...]) -> st.SearchStrategy[Any]:
    leaf = st.none() | st.booleans() | st.integers(-1, 2) | st.floats(allow_nan=False) | st.sampled_from(words)
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(words), inner, max_size=5),
        max_leaves=6,
    )


@pytest.mark.parametrize("kind", sorted(REPLIES))
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_json_is_taken_or_refused(kind: str, data: st.DataObject) -> None:
    reply = REPLIES[kind](request())
    frames = data.draw(st.lists(st.dictionaries(st.sampled_from(WORDS[kind]), json_of(WORDS[kind])), max_size=5))
    try:
        for frame in frames:
            text = reply.add(SseEvent("", msgspec.json.encode(frame).decode()))
            assert text is None or isinstance(text, str)
        assert isinstance(reply.completion(), Completion)
    except ValueError:
        pass
    except Refused as refused:
        assert isinstance(explain(None, refused.error).words, str)


@given(error=json_of(("error", "message", "detail", "code", "type")), status=st.none() | st.integers(201, 599))
def test_any_error_can_be_explained(error: Any, status: int | None) -> None:
    assert isinstance(explain(status, error).words, str)
