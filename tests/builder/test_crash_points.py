"""The daemon dies at each commit of a proposal's story, or just before the next: the agent is made whole, and once."""

from pathlib import Path

import trio

from daycare.base.documents import Layer
from daycare.features.approvals.records import ApprovalState
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import Approver
from daycare.features.memory.documents.rows import DocumentRows
from daycare.plugin import Completion, InferRequest
from daycare.store.records import Agent
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted, call, say
from tests.builder.conftest import PATH, SCRIBE, as_it_is, builder
from tests.chance import commits

CHANGE = {"name": "scribe", "reason": "shorter", "style": "One line.", "schedule": [], "budget": ["2usd a day"]}
QUIET_S = 60.0


def brain(request: InferRequest) -> Completion:
    words = request.messages[-1].text
    if request.messages[-1].role == "user" and words.endswith(("make", "change")):
        return call(("agent_propose", SCRIBE if words.endswith("make") else CHANGE))
    return say("done")


async def story(house: TestDaemon) -> None:
    """Ann has an agent made, and changes it; after a crash she says the same again."""
    await house.talk("hello", key="hello")
    await builder(house).builder.open("ann")
    for word in ("make", "change"):
        await house.talk(word, key=word, path=PATH)
        await trio.sleep(QUIET_S)
        for it in await house.store.of(ApprovalRows).find(states=[ApprovalState.PENDING]):
            await house.daemon.approvals.decide(it.no, "approve", Approver("ann", "direct:ann"), it.content_hash)
        await trio.sleep(QUIET_S)


async def check_whole(house: TestDaemon) -> int:
    """Return how far the agent is: 0 not there, 1 as it was made, 2 as it was changed; nothing is in between."""
    now = await as_it_is(house, "scribe")
    if now is None:
        assert await house.daemon.cron.controls.find("ann") == []
        return 0
    style, jobs, limit = now.documents["STYLE.md"], len(now.jobs), now.limits["day.usd"]
    assert now.conversations == ("direct",) and set(now.documents) == {"SOUL.md", "STYLE.md", "skills/minutes.md"}
    stage = {("Short lines.\n", 1, 1_000_000): 1, ("One line.\n", 0, 2_000_000): 2}[style, jobs, limit]
    versions = [
        len(await house.store.of(DocumentRows).history(version.place))
        for version in await house.store.of(DocumentRows).find(Layer.AGENT, (await at(house)).id)
    ]
    assert versions == [1, stage, 1]
    return stage


async def at(house: TestDaemon) -> Agent:
    return await house.daemon.directory.at("/ann/agent/scribe")


async def test_a_crash_anywhere_makes_all_of_it_once(tmp_path: Path, autojump_clock: object) -> None:
    doom = Doom()
    whole = tmp_path / "whole"
    whole.mkdir()
    assert not await live(whole, Scripted(brain), doom, story)
    seen = set()
    for commit in commits(20):
        if commit > doom.commits:
            break
        for late in (False, True):
            folder = tmp_path / f"{commit}-{late}"
            folder.mkdir()
            await live(folder, Scripted(brain), Doom(commit, late=late), story)

            async def again(house: TestDaemon, commit: int = commit) -> None:
                seen.add(await check_whole(house))
                await trio.sleep(QUIET_S)
                await story(house)
                assert await check_whole(house) == 2, f"killed at commit {commit}"
                states = [it.state for it in await house.store.of(ApprovalRows).find()]
                assert states == [ApprovalState.APPROVED] * 2, f"killed at commit {commit}"

            assert not await live(folder, Scripted(brain), Doom(), again)
    assert seen == {0, 1, 2}
