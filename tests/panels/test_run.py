"""A message to a chat, its answer, and which memory stood behind it."""

from typing import Any

import trio

from daycare.base.errors import UnavailableError
from daycare.testing.scripted import say
from tests.panels.conftest import Panels

RUN = "/v1/chats/{id}/run"


async def test_a_chat_answers_and_tells_which_memory_it_used(panels: Panels) -> None:
    await panels.call("PUT", "/v1/identity", {"content": "You are the lighthouse keeper."})
    await panels.call("PUT", "/v1/chats/{id}/memory", {"content": "Ann is allergic to nuts."})
    said = await panels.call("POST", RUN, {"message": "hello"})
    assert (said["answer"], said["state"], said["chatId"]) == ("echo: hello", "done", panels.scribe.id)
    assert said["message"]["turn"] > 0 and said["message"]["trace"]
    stood = {each["path"]: (each["layer"], each["version"]) for each in said["memory"]["documents"]}
    assert stood["IDENTITY.md"] == ("global", 1) and stood["MEMORY.md"] == ("agent", 1)
    assert said["memory"]["recalled"] == []
    while (await panels.call("GET", "/v1/replies", path="/ann/agent/scribe"))["replies"]:
        await trio.lowlevel.checkpoint()  # it is confirmed just after it was sent; else this never ends


async def test_what_was_recalled_for_the_answer_is_told(panels: Panels) -> None:
    await panels.house.talk("the boiler in the cellar is called Bertha", path="/ann/agent/scribe")
    await panels.call("POST", "/v1/messages", {"text": "/new", "path": "/ann/agent/scribe", "wait_s": 10})
    wanted: Any = {"query": "boiler", "agent": "/ann/agent/scribe"}
    while not (await panels.call("GET", "/v1/memories/search", **wanted))["found"]:
        await trio.lowlevel.checkpoint()  # the log is written behind the turn
    said = await panels.call("POST", RUN, {"message": "what is the boiler in the cellar called?"})
    [first, *_] = said["memory"]["recalled"]
    assert "Bertha" in first["content"] and first["tier"] == "log" and first["score"] > 0
    assert set(first) == {"label", "tier", "content", "score", "updatedAt"}
    assert "Bertha" in panels.house.model.history[-1].system


async def test_the_prompt_has_base_identity_memory_history_and_message_in_this_order(panels: Panels) -> None:
    await panels.call("PUT", "/v1/identity", {"content": "IDENTITY-WORDS"})
    await panels.call("PUT", "/v1/chats/{id}/memory", {"content": "MEMORY-WORDS"})
    await panels.call("POST", RUN, {"message": "HISTORY-WORDS"})
    await panels.call("POST", RUN, {"message": "MESSAGE-WORDS"})
    request = panels.house.model.history[-1]
    whole = "\n".join([request.system, *(message.text for message in request.messages)])
    words = ["You are an agent that lasts", "IDENTITY-WORDS", "MEMORY-WORDS", "HISTORY-WORDS", "MESSAGE-WORDS"]
    assert [whole.count(each) for each in words] == [1, 1, 1, 2, 1], "the echo of the history is history, too"
    assert sorted(words, key=whole.index) == words
    assert request.messages[-1].text.endswith("MESSAGE-WORDS")


async def test_of_a_long_memory_its_passages_that_fit_stand_before_the_history(panels: Panels) -> None:
    filler = "".join(f"## Part {number}\n\n{'Nothing of interest happened. ' * 40}\n\n" for number in range(60))
    await panels.call("PUT", "/v1/identity", {"content": "IDENTITY-WORDS"})
    await panels.call(
        "PUT", "/v1/chats/{id}/memory", {"content": f"{filler}## Boiler\n\nThe boiler is called Bertha.\n"}
    )
    await panels.call("POST", RUN, {"message": "hello there my friend, how do you do today?"})
    await panels.call("POST", RUN, {"message": "what is the boiler called?"})
    request = panels.house.model.history[-1]
    assert request.system.index("IDENTITY-WORDS") < request.system.index("The boiler is called Bertha.")
    assert "what is the boiler called?" not in request.system and len(request.messages) == 3


async def test_a_repeat_with_its_key_is_answered_as_the_first_was(panels: Panels) -> None:
    first = await panels.call("POST", RUN, {"message": "hello", "key": "one"})
    again = await panels.call("POST", RUN, {"message": "hello", "key": "one"})
    header = await panels.call("POST", RUN, {"message": "hello"}, headers={"Idempotency-Key": "one"})
    assert first["answer"] == again["answer"] == header["answer"]
    assert first["message"] == again["message"] == header["message"]
    assert len(panels.house.model.history) == 1


async def test_who_does_not_wait_for_long_is_told_that_there_is_no_answer_yet(panels: Panels) -> None:
    panels.house.model.enqueue(30.0, say("late"))
    late = await panels.call("POST", RUN, {"message": "hello", "wait_s": 0.2}, status=202)
    assert late["state"] == "waiting" and "answer" not in late and late["message"]["seq"] > 0
    none = await panels.call("POST", RUN, {"message": "hello", "wait_s": 0}, status=202)
    assert none["state"] == "waiting"


async def test_an_answer_comes_also_where_recalling_fails(panels: Panels) -> None:
    async def away(*_: object) -> None:
        raise UnavailableError("SEARCH_AWAY", "searching: it is away")

    panels.house.daemon.memory.recaller._search = away  # type: ignore[assignment]
    assert (await panels.call("POST", RUN, {"message": "hello there boiler"}))["answer"] == "echo: hello there boiler"


async def test_nothing_is_said_to_whom_there_is_not(panels: Panels) -> None:
    await panels.refused(404, "AGENT_UNKNOWN", "POST", "/v1/chats/ann.agent.none/run", {"message": "hello"})
    await panels.refused(400, "MESSAGE_EMPTY", "POST", RUN, {"message": "  "})
    await panels.refused(400, "BODY_INVALID", "POST", RUN, {})
