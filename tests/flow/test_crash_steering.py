"""A message that steers a running turn is answered once, wherever the process dies."""

from pathlib import Path

import pytest
import trio

from daycare.base.messages import Message
from daycare.features import open_store
from daycare.plugin import Completion, Inbound, InferRequest
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted, call, say
from tests.actors.helpers import tools
from tests.chance import commits

COMMITS_MAX = 100
WORDS = ("go", "left", "no, right")


def brain(request: InferRequest) -> Completion:
    """Work for ten seconds, then answer all that was said since the last answer."""
    since: list[Message] = []
    for message in request.messages:
        if message.role == "assistant" and not message.tool_calls:
            since = []
        else:
            since.append(message)
    if all(message.role == "user" for message in since):
        return call(("wait", {"seconds": 10}))
    return say(" + ".join(message.text.partition("] ")[2] for message in since if message.role == "user"))


@pytest.mark.parametrize("late", [False, True], ids=["right after", "just before the next"])
async def test_a_crash_at_any_commit_loses_and_doubles_no_steered_message(
    tmp_path: Path, autojump_clock: object, late: bool
) -> None:
    merged = set()
    for n in commits(7, begin=0):
        folder = tmp_path / f"{n}"
        folder.mkdir()
        clock = VirtualClock()
        struck = await _talk(folder, clock, Doom(n, late=late))
        await _talk(folder, clock, Doom())
        answers = await _answers(folder, clock)
        assert " + ".join(answers).split(" + ") == list(WORDS), f"crash at commit {n}: {answers}"
        merged.add(len(answers))
        if (n and not struck) or n >= COMMITS_MAX:
            break
    assert 5 < n < COMMITS_MAX - 1
    assert 1 in merged, "without a crash in between one turn sees them all"


async def _talk(folder: Path, clock: VirtualClock, doom: Doom) -> bool:
    async def story(house: TestDaemon) -> None:
        for word in WORDS:  # a repeat of what was acknowledged changes nothing
            await house.daemon.intake.accept(Inbound(connector="direct", sender="direct:ann", key=word, text=word))
            await trio.sleep(3)
        await trio.sleep(400)

    return await live(folder, Scripted(brain), doom, story, plugins=[tools], clock=clock)


async def _answers(folder: Path, clock: VirtualClock) -> list[str]:
    async with open_store(str(folder / "daycare.db"), clock, inline=True) as store:
        assert (await store.inbox.counts())["waiting"] == 0
        assert await store.dead.find() == []
        agent = await store.agents.at("/ann/direct")
        assert agent is not None
        history = await store.turns.history(agent.id, 1, 100)
        assert [message.text for message in history if message.role == "user"] == list(WORDS)
        replies = [row.text for row in await store.outbox.unread("/ann/direct")]
        spoken = [message.text for message in history if message.role == "assistant" and not message.tool_calls]
        assert replies == spoken
        return replies
