"""Requests as Open WebUI, LibreChat and Continue make them: all of them are answered.

Those called `captured` were sent by @continuedev/openai-adapters 1.37.0, and by @langchain/openai 1.5.8 with openai
6.49.0, through which LibreChat asks, and by Open WebUI 0.12.4. The others were written down from the programs' sources;
each says which.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.programs.conftest import CHAT, Programs

RECORDED = {file.stem: json.loads(file.read_text()) for file in sorted(Path(__file__).parent.glob("recorded/*.json"))}
TASKS = [name for name in RECORDED if "-task-" in name]
SPOKEN = [name for name in RECORDED if name not in TASKS]


async def sent(programs: Programs, name: str, **headers: str) -> str:
    """Send a request and return what it answers, of a stream the words."""
    it = RECORDED[name]
    answer = await programs.call("POST", CHAT, it["body"], headers=it["headers"] | headers)
    assert answer.status_code == 200, answer.text
    if not it["body"]["stream"]:
        found: str = answer.json()["choices"][0]["message"]["content"]
        return found
    *chunks, done = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert done == "[DONE]"
    told: list[Any] = [json.loads(chunk) for chunk in chunks]
    if it["body"].get("stream_options"):
        assert told.pop()["usage"]["total_tokens"] > 0
    assert told[-1]["choices"][0]["finish_reason"] == "stop"
    return "".join(each["choices"][0]["delta"].get("content", "") for each in told)


@pytest.mark.parametrize("name", SPOKEN)
async def test_what_a_person_says_is_answered(programs: Programs, name: str) -> None:
    messages = RECORDED[name]["body"]["messages"]
    assert (await sent(programs, name)).startswith("echo: ")
    before = [each["content"] for each in messages[:-1] if each["role"] != "system"]
    assert [text for _, text in programs.read[:-1]] == before
    for rules in (each["content"] for each in messages if each["role"] == "system"):
        assert rules in programs.system
    assert await programs.history() == []


@pytest.mark.parametrize("name", SPOKEN)
async def test_in_the_agents_own_conversation_it_enters_once(programs: Programs, name: str) -> None:
    await sent(programs, name, **{"X-Daycare-Conversation": "main"})
    await sent(programs, name, **{"X-Daycare-Conversation": "main"})
    assert len(await programs.history()) == 4, "two questions and two answers"


@pytest.mark.parametrize("name", TASKS)
async def test_a_background_task_is_answered_outside_of_every_conversation(programs: Programs, name: str) -> None:
    for where in ("main", "6a1f0c9e-3b2d-4c8a-8f6e-0d1c2b3a4f5e"):
        await programs.chat("my cat is called Miso", in_=where)
        before = await programs.history()
        assert (await sent(programs, name, **{"X-Daycare-Conversation": where})).startswith("echo: ")
        assert len(programs.read) == 1, "it knows nothing of the conversation"
        await programs.chat("and?", in_=where)
        assert len(programs.read) == 3
        assert len(await programs.history()) - len(before) == (2 if where == "main" else 0)


async def test_a_task_that_says_so_needs_no_known_prompt(programs: Programs) -> None:
    await programs.chat("Wie heißt dieses Gespräch?", in_="main", headers={"X-Daycare-Task": "title_generation"})
    assert await programs.history() == []
    for unfilled in ("", "{{TASK}}"):
        await programs.chat("hello", in_="main", headers={"X-Daycare-Task": unfilled})
    assert len(await programs.history()) == 4, "an empty one is what a person has said"


async def test_tools_that_a_program_brings_are_left_out_unless_it_insists(programs: Programs) -> None:
    it = RECORDED["continue-agent"]
    assert (await sent(programs, "continue-agent")).startswith("echo: ")
    for choice in ("required", {"type": "function", "function": {"name": "ls"}}):
        answer = await programs.call("POST", CHAT, it["body"] | {"tool_choice": choice}, headers=it["headers"])
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        assert "leave it out" in answer.json()["error"]["message"]
