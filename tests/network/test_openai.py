"""OpenAI's own client talks to agents."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from tests.network.conftest import Network


@contextmanager
def client(network: Network, who: str = "bob") -> Iterator[openai.OpenAI]:
    base = f"http://127.0.0.1:{network.port}/openai/v1"
    with openai.OpenAI(base_url=base, api_key=network.tokens[who] or "none", max_retries=0) as made:
        yield made


def said(text: Any, **more: Any) -> Any:
    return {"model": "daycare", "messages": [{"role": "user", "content": text}], **more}


def all_confirmed(network: Network, path: str) -> bool:
    """Return whether no reply is left; an answer is confirmed just after it was sent."""
    give_up = time.monotonic() + 10
    while unread(network, path):
        if time.monotonic() > give_up:
            return False
    return True


def unread(network: Network, path: str) -> list[str]:
    return [each["text"] for each in network.locally("GET", "/v1/replies", path=path)["replies"]]


def test_an_agent_answers_and_remembers_as_a_model(network: Network) -> None:
    with client(network) as api:
        first = api.chat.completions.create(**said("my dog is called Rex", temperature=0.2, user="x"))
        assert first.choices[0].finish_reason == "stop" and "Rex" in (first.choices[0].message.content or "")
        history = [
            {"role": "system", "content": "You are a pirate."},
            {"role": "user", "content": "my dog is called Max"},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "user", "content": [{"type": "text", "text": "what is my dog called?"}]},
        ]
        again = api.chat.completions.create(model="daycare/bob/direct", messages=history)  # type: ignore[arg-type]
    assert again.choices[0].message.content == "Your dog is called Rex.", "what the client tells of before is not heard"
    assert again.model == "daycare/bob/direct" and again.created > 1_700_000_000 and again.usage is not None
    assert all_confirmed(network, "/bob/direct"), "what a program got is not shown again in a terminal"


def test_an_answer_comes_as_a_stream_that_ends_with_its_usage(network: Network) -> None:
    with client(network) as api:
        api.chat.completions.create(**said("my dog is called Rex"))
        chunks = list(
            api.chat.completions.create(
                **said("what is my dog called?", stream=True, stream_options={"include_usage": True})
            )
        )
    deltas = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert deltas[0].delta.role == "assistant"
    assert "".join(each.delta.content or "" for each in deltas) == "Your dog is called Rex."
    assert [each.finish_reason for each in deltas if each.finish_reason] == ["stop"]
    assert chunks[-1].usage is not None and not chunks[-1].choices
    assert len({chunk.id for chunk in chunks}) == 1
    assert all_confirmed(network, "/bob/direct")


def test_a_repeat_of_a_key_is_the_same_message(network: Network) -> None:
    with client(network) as api:
        key = {"Idempotency-Key": "one"}
        first = api.chat.completions.create(**said("my dog is called Rex"), extra_headers=key)
        again = api.chat.completions.create(**said("my dog is called Rex"), extra_headers=key)
        assert all_confirmed(network, "/bob/direct")
        later = api.chat.completions.create(**said("my dog is called Rex"), extra_headers=key)
    assert first.id == again.id == later.id
    assert first.choices[0].message == again.choices[0].message == later.choices[0].message
    history = network.locally("GET", "/v1/agent", path="/bob/direct")["history"]
    assert len([message for message in history if message["role"] == "user"]) == 1


def test_models_are_the_agents_that_one_may_talk_to(network: Network) -> None:
    network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
    with client(network) as api:
        api.chat.completions.create(**said("hello"))
        assert [model.id for model in api.models.list()] == ["daycare", "daycare/bob/direct"]
    with client(network, "operator") as api:
        assert {"daycare/ann/direct", "daycare/bob/direct"} <= {model.id for model in api.models.list()}


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        (said("hi") | {"model": "gpt-4"}, 404),
        (said("hi") | {"model": "daycare/"}, 404),
        (said("hi") | {"model": "daycare/ann/direct"}, 404),
        (said("hi") | {"messages": []}, 400),
        (said("hi") | {"messages": [{"role": "assistant", "content": "hi"}]}, 400),
        (said([{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]), 400),
        (said("  "), 400),
        (said("hi", n=2), 400),
        (said("hi", tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]), 400),
    ],
)
def test_what_an_agent_cannot_be_asked_is_refused_in_openais_words(network: Network, wish: Any, status: int) -> None:
    with client(network) as api, pytest.raises(openai.APIStatusError) as caught:
        api.chat.completions.create(**wish)
    assert caught.value.status_code == status
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "invalid_request_error" and caught.value.body["code"]


def test_a_wrong_token_and_a_route_that_there_is_not_are_told_in_openais_words(network: Network) -> None:
    network.tokens["wrong"] = "daycare_wrong"
    with client(network, "wrong") as api, pytest.raises(openai.AuthenticationError):
        api.models.list()
    with client(network) as api, pytest.raises(openai.NotFoundError) as caught:
        api.files.list()
    assert isinstance(caught.value.body, dict) and caught.value.body["code"] == "ROUTE_UNKNOWN"
