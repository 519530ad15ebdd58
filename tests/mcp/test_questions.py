"""What a server asks a person during a call: a request like any other, answered by them, and by nobody else."""

import json
from pathlib import Path
from typing import Any

import trio

from daycare.base.messages import ToolResult
from daycare.features.approvals.questions import QuestionAction
from daycare.features.approvals.records import Approval, ApprovalState
from daycare.features.approvals.rows import ApprovalRows
from daycare.testing.scripted import call
from daycare.testing.scripted import say as says
from tests.approvals.story import say
from tests.mcp.house import Stub, approve_all, house_of, patience, tool, until
from tests.tools.scene import Scene


async def asked(scene: Scene, count: int = 1) -> list[Approval]:
    """Return the questions that there are, once there are so many."""
    with patience():
        while True:
            found = await scene.house.store.of(ApprovalRows).find()
            if len(found) >= count:
                return list(reversed(found))
            await trio.sleep(0.02)


def results(scene: Scene) -> list[ToolResult]:
    return [
        part for message in scene.model.history[-1].messages for part in message.parts if isinstance(part, ToolResult)
    ]


async def begin(scene: Scene, **arguments: Any) -> None:
    """Let Ann have her agent call the tool that asks."""
    scene.model.enqueue(call(("stub__ask", arguments)), says("Done."))
    await scene.house.say("please", path="/ann/pigeon", user="ann")


async def heard(scene: Scene) -> ToolResult:
    """Return the result of the call, once the model has read it."""
    await until(lambda: len(scene.model.history) >= 2)
    return results(scene)[-1]


async def test_a_question_is_answered_in_chat_while_the_lane_is_free(tmp_path: Path) -> None:
    stub = Stub(tmp_path / "stub", tool("ask"))
    async with house_of(tmp_path, stub=stub.settings()) as scene:
        await approve_all(scene, "stub")
        await begin(scene)
        [it] = await asked(scene)
        assert isinstance(it.action, QuestionAction) and it.decider == "ann" and it.state is ApprovalState.PENDING
        assert [each.says for each in (await scene.house.daemon.approvals.reply(it.no, "pigeon", "ann")).choices] == [
            f"/answer {it.no} {it.seen} #1",
            f"/answer {it.no} {it.seen} #2",
            f"/reject {it.no}",
        ]
        assert (
            await say(scene.house, "a1", f"/answer {it.no} {it.seen} #2")
            == "Answered: request 1. stub goes on with that."
        )
        result = await heard(scene)
        assert (result.status, json.loads(result.text.removeprefix("ask: "))) == (
            "ok",
            [{"action": "accept", "content": {"drink": "coffee"}}],
        )
