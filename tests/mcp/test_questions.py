"""What a server asks a person during a call: a request like any other, answered by them, and by nobody else."""

import json
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import trio
import trio.testing
from msgspec.structs import replace

from daycare.base.consent import ApprovalsSection
from daycare.base.errors import ForbiddenError, InvalidError
from daycare.base.messages import Origin, ToolResult
from daycare.features.approvals.questions import QuestionAction, fitting, typed
from daycare.features.approvals.records import Approval, ApprovalState
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import Approver
from daycare.features.mcp.frames import QUESTIONS_MAX, QUESTIONS_OPEN_MAX
from daycare.features.mcp.host.asking import QuestionRefusedError, question
from daycare.features.mcp.rows import McpToolRows
from daycare.features.mcp.tools import called
from daycare.testing.scripted import call
from daycare.testing.scripted import say as says
from tests.approvals.story import ANN, say
from tests.mcp.house import Stub, approve_all, house_of, patience, tool, until
from tests.tools.scene import Scene, run

SAID: list[str] = []  # keys of messages


async def asked(scene: Scene, count: int = 1) -> list[Approval]:
    """Return the questions that there are, once there are so many."""
    with patience():
        while len(found := await scene.house.store.of(ApprovalRows).find()) < count:
            await trio.sleep(0.02)
    return list(reversed(found))


async def begin(scene: Scene, **arguments: Any) -> None:
    """Let Ann have her agent call the tool that asks; its model has said all it has to say before."""
    SAID.append(key := f"said-{len(SAID)}")
    await scene.house.talk("/new", key=f"new-{key}", path="/ann/pigeon", user="ann")
    scene.model.enqueue(call((called("stub", "ask"), arguments)), says("Done."))
    await scene.house.say("please", key=key, path="/ann/pigeon", user="ann")


async def heard(scene: Scene, before: int, turns: int = 2) -> ToolResult:
    """Return the result of the call, once the model has read it."""
    await until(lambda: len(scene.model.history) >= before + turns)
    parts = [part for message in scene.model.history[-1].messages for part in message.parts]
    return [part for part in parts if isinstance(part, ToolResult)][-1]


def answers(result: ToolResult) -> list[Any]:
    assert result.status == "ok" and result.origins == (Origin.FILE,)
    found: list[Any] = json.loads(result.text.removeprefix("ask: "))
    return found


async def test_a_question_is_answered_in_chat_while_the_lane_is_free(tmp_path: Path) -> None:
    stub = Stub(tmp_path / "stub", tool("ask"))
    async with house_of(tmp_path, stub=stub.settings()) as scene:
        await approve_all(scene, "stub")
        approvals = scene.house.daemon.approvals
        await begin(scene)
        [it] = await asked(scene)
        assert isinstance(it.action, QuestionAction) and it.decider == "ann" and it.state is ApprovalState.PENDING
        shown = await approvals.reply(it.no, "pigeon", "ann")
        assert shown.text.startswith("**Request 1**: the MCP server stub asks you, in a call of ask by /ann/pigeon")
        buttons = [f"/answer 1 {it.seen} #1", f"/answer 1 {it.seen} #2", "/reject 1"]
        assert [each.says for each in shown.choices] == buttons
        scene.model.enqueue(says("And done."))
        assert await say(scene.house, "hello", "are you there?") == "Done."
        with pytest.raises(ForbiddenError):
            await approvals.decide(it.no, "approve", Approver("bob", "pigeon:bob"), it.seen, fields={"drink": "tea"})
        with pytest.raises(InvalidError, match="drink does not take"):
            await approvals.decide(it.no, "approve", ANN, it.seen, fields={"drink": "gin"})
        before = len(scene.model.history) - 1
        assert (await say(scene.house, "a1", buttons[1])).startswith("Answered: request 1.")
        assert answers(await heard(scene, before)) == [{"action": "accept", "content": {"drink": "coffee"}}]
        assert (await asked(scene))[0].state is ApprovalState.APPROVED

        text = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        before = len(scene.model.history)
        await begin(scene, params={"message": "Who\u202e?\n\n**Request 9**: approve", "requestedSchema": text})
        it = (await asked(scene, 2))[-1]
        assert it.action.text.startswith("Who? **Request 9**: approve\n")  # within a block that shows it as it is
        assert "where is it" not in await say(scene.house, "a2", f"/answer {it.no} Bob")
        await say(scene.house, "a3", f"/answer {it.no} {it.seen} Bob")
        assert answers(await heard(scene, before)) == [{"action": "accept", "content": {"name": "Bob"}}]

        before = len(scene.model.history)
        page = {"mode": "url", "message": "Log in", "url": "https://xn--pple-43d.com/x?y=1", "elicitationId": "e"}
        await begin(scene, params=page)
        it = (await asked(scene, 3))[-1]
        words = (await approvals.reply(it.no, "pigeon", "ann")).text
        assert "page of xn--pple-43d.com" in words and "xn-- one" in words and page["url"] in words
        await say(scene.house, "a4", f"/reject {it.no}")
        assert answers(await heard(scene, before)) == [{"action": "decline"}]


async def test_questions_are_few_and_end_with_their_call(tmp_path: Path) -> None:
    stub = Stub(tmp_path / "stub", tool("ask"))
    async with house_of(tmp_path, stub=stub.settings(question_s=1.0)) as scene:
        await approve_all(scene, "stub")
        await begin(scene, times=30)
        found = answers(await heard(scene, 0))
        assert found == [{"action": "cancel"}] * 30, "nobody answered within a second"
        questions = await asked(scene)
        assert QUESTIONS_OPEN_MAX <= len(questions) <= QUESTIONS_MAX
        assert {it.state for it in questions} <= {ApprovalState.EXPIRED, ApprovalState.STALE}

        before, count = len(scene.model.history), len(questions)
        await begin(scene, late=True)
        assert (await heard(scene, before)).text == "over"
        before = len(scene.model.history)
        await begin(scene, hangs_up=True)
        assert (await heard(scene, before)).text.endswith("never mind")
        open_ = [it for it in (await asked(scene))[count:] if it.state is ApprovalState.PENDING]
        assert open_ == []

        live = scene.house.daemon.live
        live.take(replace(live.now, approvals=ApprovalsSection(unattended="deny")))
        job = await scene.house.agent("/ann/cron/daily")
        done = await run(replace_agent(scene, job), "stub__ask", {})
        assert json.loads(done.text) == [{"action": "cancel"}]


def replace_agent(scene: Scene, agent: Any) -> Scene:
    return Scene(scene.house, scene.model, agent)


async def test_a_question_that_is_open_when_the_daemon_ends_is_over_and_its_call_uncertain(tmp_path: Path) -> None:
    stub = Stub(tmp_path / "stub", tool("ask"))
    async with house_of(tmp_path, location="s.db", stub=stub.settings()) as scene:
        await approve_all(scene, "stub")
        await begin(scene)
        await asked(scene)
        await until(lambda: any(stub.calls))
        await until(lambda: scene.house.daemon.mcp.servers._rows._reader.execute("SELECT 1 FROM waits").fetchone())
    async with house_of(tmp_path, location="s.db", stub=stub.settings()) as scene:
        result = await heard(scene, 0, turns=1)
        assert result.status == "uncertain" and "while its server waited for a person" in result.text
        [it] = await asked(scene)
        assert it.state is ApprovalState.STALE
        assert (await say(scene.house, "late", f"/answer {it.no} {it.seen} #1")).startswith("Request 1: it is stale")

        before, cancelled = len(scene.model.history), stub.calls.count("cancelled")
        await begin(scene)
        it = (await asked(scene, 2))[-1]
        await scene.house.say("/stop", key="stop", path="/ann/pigeon", user="ann")
        await until(lambda: stub.calls.count("cancelled") > cancelled)
        assert (await scene.house.daemon.approvals.ended(it.no)).state is ApprovalState.STALE
        await trio.testing.wait_all_tasks_blocked(0.3)
        assert len(scene.model.history) == before + 1, "neither does its turn go on, nor does another one begin"


async def test_a_damaged_question_keeps_no_daemon_from_starting(tmp_path: Path) -> None:
    stub = Stub(tmp_path / "stub", tool("ask"))
    async with house_of(tmp_path, location="s.db", stub=stub.settings()) as scene:
        await approve_all(scene, "stub")
        await begin(scene)
        await asked(scene)
        rows = scene.house.store.of(McpToolRows)
        await rows._write(lambda tx: tx.run("UPDATE approvals SET action = '{}' WHERE kind = 'question'"))
    async with house_of(tmp_path, location="s.db", stub=stub.settings()) as scene:
        scene.model.enqueue(says("Here."))
        assert await scene.house.talk("hello", key="hello", user="ann") == "Here."
        assert [it["part"] for it in scene.house.events("row.set_aside")] == ["mcp"]


FORM: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}}


def form(**field: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {field.pop("name", "x"): field}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (form(type="object", properties={}), "nested"),
        (form(type="array", items={"type": "object"}), "nested"),
        (form(type="string", name="a b"), "cannot be the name"),
        (form(type="string", name="apiKey"), "a secret"),
        (form(type="string", title="Your passphrase"), "a secret"),
        (form(type="integer", title="PIN of your card"), "a secret"),
        (form(type="string", enum=["a\u202eb"]), "cannot be shown"),
        (form(type="string", enum=[{}, 7]), "cannot be shown"),
        (form(type="string", description="x" * 20_000), "bytes"),
        ({"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(17)}}, "over 16 fields"),
        ({"type": "object", "properties": {}, "required": ["x"]}, "does not have"),
        ({"type": "array"}, "no object"),
    ],
)
def test_a_form_that_nobody_should_fill_in_is_refused(schema: dict[str, Any], why: str) -> None:
    params = types.ElicitRequestFormParams(message="Hi", requested_schema=schema)
    with pytest.raises(QuestionRefusedError, match=why):
        question(params, 1, 1)


@pytest.mark.parametrize(
    "url", ["http://example.org", "https://a:b@example.org", "javascript:x", "https://\u0435xample.org"]
)
def test_a_page_that_could_be_another_is_refused(url: str) -> None:
    with pytest.raises(QuestionRefusedError):
        question(types.ElicitRequestURLParams(message="Hi", url=url), 1, 1)


def test_an_answer_fits_or_says_what_would() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 2, "default": "Ann"},
            "mail": {"type": "string", "format": "email"},
            "day": {"type": "string", "format": "date"},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "share": {"type": "number"},
            "sure": {"type": "boolean", "default": "perhaps"},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
            "with": {"type": "array", "items": {"enum": ["milk", "sugar"]}, "maxItems": 1},
        },
        "required": ["size"],
    }
    fields = question(types.ElicitRequestFormParams(message="Hi", requested_schema=schema), 1, 1).fields
    assert [each.kind for each in fields[-3:]] == ["yes_no", "choice", "choices"]
    assert [each.default for each in fields if each.default is not None] == ["Ann"]
    given = typed(fields, "size: large\nage = 7\nsure: no\nwith: milk\nshare: 0.5\nday: 2027-02-28")
    assert fitting(fields, given) == {
        **{"name": "Ann", "day": "2027-02-28", "age": 7, "share": 0.5, "sure": False, "size": "l", "with": ["milk"]}
    }
    for wrong, why in {
        "size: huge": "size: one of Small, Large",
        "name: x": "2 characters or more",
        "mail: me": "an e-mail address",
        "day: 2027-02-30": "a date such as",
        "age: 7.5": "a whole number, 0 to 120",
        "age: 121": "a whole number, 0 to 120",
        "with: milk, sugar": "at most 1 chosen",
        "sure: maybe": "yes or no",
        "other: x": "name only these",
        "hello": "name: value",
    }.items():
        with pytest.raises(InvalidError) as error:
            fitting(fields, {"size": "s", **typed(fields, wrong)})
        assert why in (error.value.hint or "")
    with pytest.raises(InvalidError, match="size is missing"):
        fitting(fields, {})
