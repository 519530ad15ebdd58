"""Responses: gone on from by their id, found by it later, and nobody else's."""

from typing import Any

import pytest
import trio

from daycare.api.callers import SOCKET, Caller
from daycare.base.errors import InvalidError
from daycare.features.openai import rows
from daycare.features.openai.rows import ExchangeRows
from tests.programs.conftest import RESPONSES, Json, Programs, token


async def respond(programs: Programs, text: Any, *, status: int = 200, by: Caller = SOCKET, **more: Any) -> Json:
    headers = more.pop("headers", {})
    wish = {"model": "daycare", "input": text} | more
    answer = await programs.call("POST", RESPONSES, wish, by=by, headers=headers)
    assert answer.status_code == status, answer.text
    document: Json = answer.json()
    return document


def text_of(response: Json) -> str:
    [message] = response["output"]
    [part] = message["content"]
    found: str = part["text"]
    return found


async def test_a_chain_of_responses_is_the_conversation(programs: Programs) -> None:
    first = await respond(
        programs,
        [
            {"role": "user", "content": "I am Rex"},
            {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": "one"},
        ],
        instructions="Be brief.",
    )
    assert (first["object"], first["status"], text_of(first)) == ("response", "completed", "echo: one")
    assert "Be brief." in programs.system and first["instructions"] == "Be brief."
    second = await respond(programs, "two", previous_response_id=first["id"])
    assert "Be brief." not in programs.system, "instructions are for their own turn"
    third = await respond(programs, "three", previous_response_id=second["id"])
    told = ["I am Rex", "Hi", "one", "echo: one", "two", "echo: two", "three"]
    assert [text for _, text in programs.read] == told
    branch = await respond(programs, "other", previous_response_id=first["id"])
    assert [text for _, text in programs.read] == [*told[:4], "other"]
    assert len({each["id"] for each in (first, second, third, branch)}) == 4
    assert await programs.history() == []


async def test_what_was_deleted_is_told_no_more(programs: Programs) -> None:
    first = await respond(programs, "one")
    second = await respond(programs, "two", previous_response_id=first["id"])
    gone = await programs.call("DELETE", f"{RESPONSES}/{first['id']}")
    assert gone.json() == {"id": first["id"], "object": "response.deleted", "deleted": True}
    assert (await programs.call("DELETE", f"{RESPONSES}/{first['id']}")).status_code == 404
    await respond(programs, "three", previous_response_id=first["id"], status=404)
    await respond(programs, "three", previous_response_id=second["id"])
    assert [text for _, text in programs.read] == ["two", "echo: two", "three"]


async def test_a_response_is_its_users_own(programs: Programs) -> None:
    first = await respond(programs, "my secret is 4711")
    bob = token("bob")
    for method in ("GET", "DELETE"):
        answer = await programs.call(method, f"{RESPONSES}/{first['id']}", by=bob)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "RESPONSE_UNKNOWN")
    await respond(programs, "what is it?", previous_response_id=first["id"], by=bob, status=404)
    assert (await programs.call("GET", f"{RESPONSES}/{first['id']}")).status_code == 200


async def test_it_is_found_by_its_id_while_it_is_made_and_after_it_failed(programs: Programs) -> None:
    model = programs.house.model
    model.enqueue(2.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(respond, programs, "slow")
        while not (begun := programs.house.store._reader.execute("SELECT ref FROM openai_exchanges").fetchall()):
            await trio.sleep(0.01)
        [(ref,)] = begun
        found = (await programs.call("GET", f"{RESPONSES}/resp_{ref}")).json()
        assert (found["status"], found["output"], found["usage"]) == ("in_progress", [], None)
    found = (await programs.call("GET", f"{RESPONSES}/resp_{ref}")).json()
    assert (found["status"], text_of(found)) == ("completed", "echo: slow")
    model.enqueue(InvalidError("MODEL_REFUSED", "no"))
    await respond(programs, "bad", status=409)
    [(ref,)] = programs.house.store._reader.execute(
        "SELECT ref FROM openai_exchanges ORDER BY no DESC LIMIT 1"
    ).fetchall()
    assert (await programs.call("GET", f"{RESPONSES}/resp_{ref}")).json()["status"] == "failed"


async def test_it_can_be_part_of_a_conversation(programs: Programs) -> None:
    main = await respond(programs, "one", conversation="main")
    assert await programs.history() == ["one", "echo: one"] and main["conversation"] == {"id": "main"}
    await respond(programs, "two", previous_response_id=main["id"])
    assert len(await programs.history()) == 4, "who goes on from it is in the same conversation"
    blue = await respond(programs, "three", conversation={"id": "blue"})
    await respond(programs, "four", user="blue")
    assert [text for _, text in programs.read] == ["three", "echo: three", "four"]
    await respond(programs, "five", previous_response_id=blue["id"])
    assert len(programs.read) == 5
    kept = programs.house.store._reader.execute("SELECT said FROM openai_exchanges WHERE conversation = 'main'")
    assert {said for (said,) in kept} == {"[]"}, "the agent's own conversation has it: it is not kept twice"
    found = await respond(programs, "six", conversation="blue", previous_response_id=blue["id"], status=400)
    assert "give one of them" in found["error"]["message"]


async def test_a_repeat_of_a_key_is_the_same_response(programs: Programs) -> None:
    key = {"Idempotency-Key": "one"}
    first, again = [await respond(programs, "one", headers=key) for _ in range(2)]
    assert (first["id"], text_of(first)) == (again["id"], text_of(again))
    assert len(programs.house.model.history) == 1


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"input": []}, "there is none"),
        ({"input": [{"type": "function_call_output", "call_id": "1", "output": "3"}]}, "$.input[0]"),
        ({"input": "hi", "background": True}, "by the id of the response"),
        ({"input": "hi", "tool_choice": "required"}, "calls none of a client"),
        ({"input": [{"role": "assistant", "content": "hi"}]}, "end with what the user says"),
    ],
)
async def test_what_an_agent_cannot_be_asked_says_what_to_do(programs: Programs, wish: Any, says: str) -> None:
    found = await respond(programs, "", status=400, **wish)
    assert says in found["error"]["message"] and not programs.house.model.history


async def test_the_oldest_exchanges_of_a_user_go_and_what_is_old(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "EXCHANGES_MAX_PER_USER", 3)
    made = [await respond(programs, f"{number}") for number in range(5)]
    await respond(programs, "bob's", by=token("bob"))
    kept = [(await programs.call("GET", f"{RESPONSES}/{each['id']}")).status_code for each in made]
    assert kept == [404, 404, 200, 200, 200]
    exchanges = programs.house.store.of(ExchangeRows)
    assert await exchanges.expire(programs.house.daemon.clock.now_ms() + 1, 2) == 2
    assert await exchanges.expire(programs.house.daemon.clock.now_ms() + 1, 100) == 2
