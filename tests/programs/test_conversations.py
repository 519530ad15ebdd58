"""Which conversation a request is part of, and what an agent is told of it."""

from pathlib import Path

import httpx
import pytest
import trio

from daycare.api.app import build
from daycare.base.errors import InvalidError
from daycare.base.memories import Tier
from daycare.base.messages import Origin
from daycare.config import Config
from daycare.features import rows
from daycare.features.memory.store.records import OWN_BITS
from daycare.features.memory.store.rows import MemoryRows
from daycare.features.openai.requests import CLIENT_SAID_MAX_CHARS
from daycare.store.records import User
from daycare.store.sqlite.purging import purge
from daycare.testing.daemon import open_daemon
from tests import stored
from tests.programs.conftest import CHAT, RESPONSES, Programs, token, words
from tests.stored import located

REX = ({"role": "user", "content": "I am Rex"}, {"role": "assistant", "content": "Hello Rex"})


async def test_without_a_conversation_the_request_is_all_there_is(programs: Programs) -> None:
    assert words(await programs.chat(*REX, "who am I?")) == "echo: who am I?"
    assert programs.read == [("user", "I am Rex"), ("assistant", "Hello Rex"), ("user", "who am I?")]
    await programs.chat("and now?")
    assert programs.read == [("user", "and now?")]
    assert await programs.history() == [], "nothing of it is kept"


async def test_in_main_only_the_last_words_go_to_the_agents_own_conversation(programs: Programs) -> None:
    await programs.house.talk("I am Max")
    await programs.chat(*REX, "who am I?", in_="main")
    assert programs.read == [("user", "I am Max"), ("assistant", "echo: I am Max"), ("user", "who am I?")]
    assert await programs.history() == ["I am Max", "echo: I am Max", "who am I?", "echo: who am I?"]


async def test_a_conversation_by_another_name_is_kept_and_is_not_the_agents(programs: Programs) -> None:
    await programs.chat(*REX, "one", in_="blue")
    assert len(programs.read) == 3, "a new one begins with what the program tells of"
    await programs.chat("elsewhere", in_="red")
    one = ({"role": "user", "content": "one"}, {"role": "assistant", "content": "echo: one"})
    await programs.chat(*REX, *one, "two", in_="blue")
    begun = [("user", "I am Rex"), ("assistant", "Hello Rex"), ("user", "one"), ("assistant", "echo: one")]
    assert programs.read == [*begun, ("user", "two")], "nothing is told twice"
    await programs.chat("three", user="blue")
    assert len(programs.read) == 7, "`user` names it as the header does"
    await programs.chat("hi", user="blue", in_="red")
    assert programs.read[0] == ("user", "elsewhere"), "the header goes before `user`"
    assert await programs.history() == []


@pytest.mark.parametrize("name", ["", " ", "new", "null", "{{CHAT_ID}}"])
async def test_a_placeholder_that_a_program_left_names_none(programs: Programs, name: str) -> None:
    for text in ("one", "two"):
        await programs.chat(text, in_=name)
        assert programs.read == [("user", text)]


async def test_libraries_are_told_not_to_send_again_what_was_taken(programs: Programs) -> None:
    programs.house.model.enqueue(InvalidError("MODEL_REFUSED", "no"))
    wish = {"model": "daycare", "messages": [REX[0]]}
    dead = await programs.call("POST", CHAT, wish)
    assert (dead.status_code, dead.headers["x-should-retry"]) == (409, "false")
    wrong = await programs.call("POST", CHAT, wish | {"n": 2})
    assert "x-should-retry" not in wrong.headers


async def test_a_conversation_is_its_users_and_its_models_own(programs: Programs) -> None:
    await programs.house.agent("/ann/agent/scribe")
    await programs.chat("my secret is 4711", in_="blue")
    await programs.chat("what is it?", in_="blue", by=token("bob"))
    assert programs.read == [("user", "what is it?")]
    await programs.chat("what is it?", in_="blue", model="daycare/ann/agent/scribe")
    assert programs.read == [("user", "what is it?")]
    assert (await programs.chat("hi", model="daycare/ann/direct", by=token("bob"), status=404))["error"]["code"]


async def test_what_a_program_says_as_system_is_told_below_the_rules_and_for_this_turn(programs: Programs) -> None:
    rules = {"role": "system", "content": "You are a pirate."}
    for where in ("", "main", "blue"):
        await programs.chat(rules, {"role": "developer", "content": "Rhyme."}, "hello", in_=where)
        head, _, tail = programs.system.partition("The program in which the user writes")
        assert "<identity>" in head and "You are a pirate.\n\nRhyme." in tail
        await programs.chat("hello", in_=where)
        assert "pirate" not in programs.system


async def test_a_repeat_of_a_key_is_the_same_message(programs: Programs) -> None:
    for where in ("", "main", "blue"):
        key = {"Idempotency-Key": f"key-{where}"}
        first = await programs.chat("hello", in_=where, headers=key)
        again = await programs.chat("hello", in_=where, headers=key)
        assert (first["id"], words(first)) == (again["id"], words(again))
    assert len(programs.house.model.history) == 3
    await programs.chat("and?", in_="blue")
    assert len(programs.read) == 3, "it is told of once"


async def test_a_command_in_a_turn_that_stands_alone_is_words(programs: Programs) -> None:
    await programs.house.talk("I am Max")
    assert words(await programs.chat("/reset")) == "echo: /reset"
    assert len(await programs.history()) == 2
    assert "new conversation begins" in words(await programs.chat("/reset", in_="main"))


async def test_a_long_conversation_loses_its_oldest_words(programs: Programs) -> None:
    long = [{"role": "user", "content": f"{number} {'x' * 60_000}"} for number in range(10)]
    answer = await programs.call("POST", CHAT, {"model": "daycare", "messages": [*long, REX[0]]})
    assert answer.status_code == 200
    row = programs.house.model.history[-1].messages
    assert sum(len(each.text) for each in row) <= CLIENT_SAID_MAX_CHARS + 100
    assert row[-2].text.startswith("9 ")


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"messages": []}, "there is none"),
        ({"messages": [REX[0], REX[1]]}, "end with what the user says"),
        ({"messages": [REX[0], {"role": "tool", "tool_call_id": "x", "content": "3"}]}, "an agent runs its own"),
        ({"messages": [{"role": "user", "content": "  "}]}, "says nothing"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "$.messages[0].role"),
        ({"messages": [REX[0]], "n": 2}, "one answer"),
        ({"messages": [REX[0]], "tool_choice": "required"}, "calls none of a client"),
        ({"messages": [REX[0]], "user": "a\nb"}, "one line of text"),
        ({"messages": [REX[0]], "user": "x" * 300}, "200 characters"),
    ],
)
async def test_what_an_agent_cannot_be_asked_says_what_to_do(programs: Programs, wish: object, says: str) -> None:
    assert isinstance(wish, dict)
    answer = await programs.call("POST", CHAT, {"model": "daycare"} | wish)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (400, "invalid_request_error", "BODY_INVALID")
    assert says in error["message"], error
    assert not programs.house.model.history


async def test_tools_of_a_program_are_left_out(programs: Programs) -> None:
    assert words(await programs.chat("hi", tools=[{"type": "function"}], tool_choice="auto")) == "echo: hi"
    calls = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    await programs.chat("hi", calls, {"role": "tool", "tool_call_id": "1", "content": "3"}, "so?")
    assert programs.read == [("user", "hi"), ("user", "so?")], "what its tools did before is not told"


HALF = "\\ud800"  # of a pair of surrogates, as JSON can carry it
HALVES = (
    (CHAT, f'{{"model": "{HALF}", "messages": [{{"role": "user", "content": "hi"}}]}}'),
    (CHAT, f'{{"model": "daycare", "user": "{HALF}", "messages": [{{"role": "user", "content": "hi"}}]}}'),
    (CHAT, f'{{"model": "daycare", "messages": [{{"role": "system", "content": "{HALF}"}},'
           f' {{"role": "assistant", "content": "{HALF}"}}, {{"role": "user", "content": "hi{HALF}"}}]}}'),
    (CHAT, f'{{"model": "daycare", "messages": [{{"role": "user", "content": [{{"type": "file",'
           f' "file": {{"filename": "{HALF}", "file_data": "aGk="}}}}]}}]}}'),
    (RESPONSES, f'{{"model": "daycare", "input": "hi{HALF}", "instructions": "{HALF}",'
     f' "metadata": {{"a": "{HALF}"}}}}'),
    (RESPONSES, f'{{"model": "daycare", "input": "hi", "previous_response_id": "resp_{HALF}"}}'),
    ("/openai/v1/embeddings", f'{{"model": "{HALF}", "input": "{HALF}"}}'),
)  # fmt: skip


@pytest.mark.parametrize(("route", "body"), HALVES)
async def test_half_a_character_is_no_defect(programs: Programs, route: str, body: str) -> None:
    transport = httpx.ASGITransport(app=programs.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
        answer = await client.request("POST", route, content=body)
    assert answer.status_code in (200, 400, 404), answer.text
    assert answer.json()


async def memories(programs: Programs, tier: Tier) -> list[str]:
    return [each.text for each in await programs.house.store.of(MemoryRows).find("ann", tier, limit=100)]


async def test_memory_learns_from_a_conversation_that_is_kept_and_from_none_that_stands_alone(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, config=Config(), curates=True) as house:
        programs = Programs(house, build(house.daemon.services))
        await programs.chat("My sister Clara lives in Bern.", in_="blue")
        await programs.chat("My brother Karl lives in Rome.")
        await trio.sleep(3 * 3_600)
        assert await memories(programs, Tier.FACT) == ["Ann's sister Clara lives in Bern"]
        logged = await memories(programs, Tier.LOG)
        assert "My sister Clara lives in Bern." in logged and not any("Karl" in text for text in logged)
        await house.talk("/reset")
        assert "Bern" in await house.talk("Where does my sister live?"), "what it learned there it knows elsewhere"
        assert len(await programs.history()) == 2


async def test_what_is_forgotten_is_no_part_of_a_conversation_that_is_kept(programs: Programs) -> None:
    first = await programs.chat("my locker code is 4711-0815", in_="blue")
    await programs.chat("hello", in_="blue")
    await trio.sleep(5)
    [no] = [
        each.no
        for each in await programs.house.store.of(MemoryRows).find("ann", Tier.LOG, limit=100)
        if each.role == "user" and "4711" in each.text
    ]
    done = await programs.call("POST", "/v1/memories/forget", {"numbers": [no & OWN_BITS]})
    assert done.status_code == 200, done.text
    await programs.chat("what is it?", in_="blue")
    assert programs.read == [("user", "hello"), ("assistant", "echo: hello"), ("user", "what is it?")], first
    kept = programs.house.store._reader.execute("SELECT said FROM openai_exchanges").fetchall()
    assert len(kept) == 2 and "4711" not in str(kept)


async def test_exchanges_go_with_an_agent_and_with_a_user_who_is_removed_for_good(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, location="daycare.db") as house:
        await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)), Origin.PERSON)
        programs = Programs(house, build(house.daemon.services))
        for wish in ({"model": "daycare/ann/agent/scribe"}, {"by": token("bob")}):
            agent = await house.agent("/ann/agent/scribe") if "model" in wish else None
            await programs.chat("my secret is 4711", in_="blue", **wish)
            if agent is not None:
                gone = await programs.call("DELETE", f"/v1/agent?path={agent.path}")
                assert gone.status_code == 200, gone.text
                await house.agent("/ann/agent/scribe")
                await programs.chat("what is it?", in_="blue", **wish)
                assert programs.read == [("user", "what is it?")], "it is another agent"
    purge(located(tmp_path / "daycare.db"), "bob", 0, rows())
    left = stored.rows(tmp_path / "daycare.db", "SELECT user FROM openai_exchanges GROUP BY user")
    assert left == [("ann",)]
