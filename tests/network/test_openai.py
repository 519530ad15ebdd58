"""OpenAI's own client talks to agents."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from tests.network.conftest import Network


@contextmanager
def client(network: Network, who: str = "bob", conversation: str = "main") -> Iterator[openai.OpenAI]:
    base = f"http://127.0.0.1:{network.port}/openai/v1"
    headers = {"X-Daycare-Conversation": conversation} if conversation else {}
    key = network.tokens[who] or "none"
    with openai.OpenAI(base_url=base, api_key=key, max_retries=0, default_headers=headers) as made:
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


def test_without_a_conversation_nothing_is_remembered(network: Network) -> None:
    with client(network, conversation="") as api:
        api.chat.completions.create(**said("my dog is called Rex"))
        history = [{"role": "user", "content": "my dog is called Max"}, {"role": "assistant", "content": "Noted."}]
        asked = {"role": "user", "content": "what is my dog called?"}
        told = api.chat.completions.create(model="daycare", messages=[*history, asked])  # type: ignore[list-item]
        assert told.choices[0].message.content == "Your dog is called Max."
        untold = api.chat.completions.create(**said("what is my dog called?"))
        assert "Rex" not in (untold.choices[0].message.content or "")
    assert network.locally("GET", "/v1/agent", path="/bob/direct")["history"] == []


def test_a_response_is_gone_on_from_by_its_id(network: Network) -> None:
    with client(network, conversation="") as api:
        first = api.responses.create(model="daycare", input="my dog is called Rex", instructions="Be brief.")
        assert first.status == "completed" and first.usage is not None and first.usage.total_tokens >= 0
        again = api.responses.create(model="daycare", input="what is my dog called?", previous_response_id=first.id)
        assert again.output_text == "Your dog is called Rex." and again.previous_response_id == first.id
        assert api.responses.retrieve(first.id).output_text == first.output_text
        api.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            api.responses.retrieve(first.id)
        once = api.responses.create(model="daycare", input="hello", store=False)
        with pytest.raises(openai.NotFoundError):
            api.responses.retrieve(once.id)
    with client(network, "ann", "") as api, pytest.raises(openai.NotFoundError):
        api.responses.retrieve(again.id)
    assert all_confirmed(network, "/bob/direct")


def test_a_response_comes_as_a_stream_of_numbered_events(network: Network) -> None:
    with client(network, conversation="") as api:
        events = list(api.responses.create(model="daycare", input="my dog is called Rex", stream=True))
        assert [event.sequence_number for event in events] == list(range(len(events)))
        kinds = [event.type for event in events]
        assert kinds[:4] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
        assert kinds[-4:] == [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert set(kinds[4:-4]) == {"response.output_text.delta"}
        with api.responses.stream(model="daycare", input="what is my dog called?") as stream:
            final = stream.get_final_response()
        assert final.status == "completed" and final.output_text
        assert api.responses.retrieve(final.id).output_text == final.output_text


def test_models_are_the_agents_that_one_may_talk_to(network: Network) -> None:
    network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
    with client(network) as api:
        api.chat.completions.create(**said("hello"))
        assert [model.id for model in api.models.list()] == ["daycare", "daycare/bob/direct"]
        assert api.models.retrieve("daycare").object == "model"
        assert api.models.retrieve("daycare/bob/direct").id == "daycare/bob/direct"
        for other in ("daycare/ann/direct", "daycare/bob/agent/none", "gpt-4"):
            with pytest.raises(openai.NotFoundError):
                api.models.retrieve(other)
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
        (said("hi", tool_choice="required"), 400),
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


def test_a_program_speaks_for_whom_it_names(network: Network) -> None:
    network.add("webui", may="speak")
    network.locally("POST", "/v1/users/bob/links", {"key": "openwebui:bob@example.org"})
    with client(network, "webui") as api:
        with pytest.raises(openai.PermissionDeniedError):
            api.chat.completions.create(**said("hello"))
        named = api.with_options(default_headers={"X-OpenWebUI-User-Email": "bob@example.org"})
        assert named.chat.completions.create(**said("hello")).choices[0].message.content
        assert "daycare/bob/direct" in {model.id for model in named.models.list()}
    assert network.call("webui", "GET", "/v1/status").status_code == 404
