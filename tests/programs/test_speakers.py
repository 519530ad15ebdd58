"""A program that several people use: it speaks for those whom it names, with a token made for that."""

import json
from pathlib import Path

import pytest

from daycare.api.callers import SOCKET, Caller, May
from tests.programs.conftest import CHAT, RESPONSES, Programs, token, words

WEBUI = token("ann", May.SPEAK)
RECORDED = json.loads((Path(__file__).parent / "recorded/openwebui-captured-chat.json").read_text())
BOB = {"X-OpenWebUI-User-Email": "bob@example.org"}
MODELS = "/openai/v1/models"


async def test_who_is_linked_is_spoken_for(programs: Programs) -> None:
    await programs.house.store.people.link("openwebui:bob@example.org", "bob")
    answer = await programs.call(
        "POST", CHAT, RECORDED["body"] | {"stream": False}, by=WEBUI, headers=RECORDED["headers"]
    )
    assert words(answer.json()) == "echo: what is my cat called?"
    assert "/bob/direct" in str(programs.house.events("turn.finished")[-1])
    await programs.house.store.people.link("openwebui:0b7f", "ann")
    both = BOB | {"X-OpenWebUI-User-Id": "0b7f"}
    await programs.chat("hi", by=WEBUI, headers=both, in_="main")
    assert await programs.history() == ["hi", "echo: hi"], "the id goes before the address, which people may change"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "SPEAKER_UNNAMED"),
        ({"X-OpenWebUI-User-Email": " "}, "SPEAKER_UNNAMED"),
        ({"X-OpenWebUI-User-Name": "bob"}, "SPEAKER_UNNAMED"),
        (BOB, "SPEAKER_UNKNOWN"),
        ({"X-OpenWebUI-User-Email": "direct:ann"}, "SPEAKER_UNKNOWN"),
        ({"X-OpenWebUI-User-Id": "bob"}, "SPEAKER_UNKNOWN"),
    ],
)
async def test_nobody_and_nobody_known_is_not_spoken_for(
    programs: Programs, headers: dict[str, str], code: str
) -> None:
    for method, route in (("GET", MODELS), ("POST", CHAT), ("GET", f"{RESPONSES}/resp_1")):
        body = {"model": "daycare", "messages": [{"role": "user", "content": "hi"}]} if method == "POST" else None
        answer = await programs.call(method, route, body, by=WEBUI, headers=headers)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["type"]) == (403, code, "permission_error")
    assert not programs.house.model.history


async def test_it_sees_what_the_one_it_names_sees_and_no_more(programs: Programs) -> None:
    await programs.house.store.people.link("openwebui:bob@example.org", "bob")
    await programs.chat("my secret is 4711", in_="main")
    await programs.chat("hi", in_="main", by=token("bob"))
    answer = await programs.call("GET", MODELS, by=WEBUI, headers=BOB)
    assert [each["id"] for each in answer.json()["data"]] == ["daycare", "daycare/bob/direct"]
    await programs.chat("hi", model="daycare/ann/direct", by=WEBUI, headers=BOB, status=404)


@pytest.mark.parametrize("by", [SOCKET, token("ann"), token("ann", May.OPERATOR)], ids=["socket", "person", "operator"])
async def test_with_any_other_token_the_headers_say_nothing(programs: Programs, by: Caller) -> None:
    await programs.house.store.people.link("openwebui:bob@example.org", "bob")
    await programs.chat("hi", by=by, headers=BOB, in_="main")
    assert await programs.history("/ann/direct") == ["hi", "echo: hi"]


async def test_a_person_who_is_unlinked_is_spoken_for_no_longer(programs: Programs) -> None:
    await programs.house.store.people.link("openwebui:bob@example.org", "bob")
    await programs.chat("hi", by=WEBUI, headers=BOB)
    await programs.house.store.people.unlink("openwebui:bob@example.org")
    await programs.chat("hi", by=WEBUI, headers=BOB, status=403)
