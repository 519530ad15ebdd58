"""The daemon dies at each commit of a proposal's story, or just before the next: carried out once, or still pending."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from daycare.base.messages import Message
from daycare.features import open_store
from daycare.features.approvals.records import ApprovalState
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.plugin import Completion, Inbound, InferRequest
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted, bare, call, say
from tests.approvals.story import Proposing, ann, memory_of, overwrite
from tests.chance import commits

ASKED = "I have a dog"
PROPOSED = "- has a dog\n"
EDITED = "- has a cat\n"
QUIET_S = 5.0
PRESSES_MAX = 6

STORIES = {
    "approve": (("Approve",), {PROPOSED}),
    "edit": (("reply", "Approve"), {EDITED}),
    "reject": (("Reject",), set[str]()),
    "undo": (("Approve", "Undo"), set[str]()),
    "stale": (("meanwhile", "Approve"), {f"- by others\n{PROPOSED}"}),
}


def brain(request: InferRequest) -> Completion:
    """Propose what is asked for; answer everything else with a word."""
    said = list(request.messages)
    last_user = max(index for index, message in enumerate(said) if message.role == "user")
    words = said[last_user].text.partition("] ")[2]
    if words == ASKED and not any(message.role == "tool" for message in said[last_user:]):
        return call(("propose", {"text": PROPOSED, "reason": "they said so", "verb": "append"}))
    return say("asked" if words == ASKED else f"told: {bare(words).splitlines()[-1]}")


@dataclass
class Drama:
    """A folder in which the story happens, over as many houses as it takes, and the person in front of it."""

    folder: Path
    acts: tuple[str, ...]
    clock: VirtualClock = field(default_factory=VirtualClock)
    pigeon: FakeConnector = field(default_factory=FakeConnector)
    model: Scripted = field(default_factory=lambda: Scripted(brain))
    proposing: Proposing = field(default_factory=Proposing)
    done: set[str] = field(default_factory=set)
    proposed_at: int = 0  # how many commits it took until the request was shown
    acknowledged: set[str] = field(default_factory=set)

    async def run(self, doom: Doom) -> bool:
        """Let one house work until it crashes or all is done."""
        plugins = [self.pigeon.plugin(), self.proposing.plugin()]

        async def story(house: TestDaemon) -> None:
            await self._story(house, doom)

        struck = await live(self.folder, self.model, doom, story, plugins=plugins, clock=self.clock)
        self.proposing.leave()
        return struck

    async def _story(self, house: TestDaemon, doom: Doom) -> None:
        self.proposing.enter(house)
        agent = await ann(house)
        await self._deliver(house, "update:1", ASKED)
        await trio.sleep(QUIET_S)
        self.proposed_at = doom.commits
        for act in self.acts:
            if act == "meanwhile":
                if act not in self.done:
                    await overwrite(house, memory_of(agent), "- by others\n")
                    self.done.add(act)
                continue
            await self._insist(house, act)
        await trio.sleep(QUIET_S)

    async def _insist(self, house: TestDaemon, act: str) -> None:
        """Do what a person does who sees that a button has had no effect yet: press the one that is shown now."""
        for _ in range(PRESSES_MAX):
            it = await house.store.of(ApprovalRows).get(1)
            assert it is not None
            if (
                (act == "reply" and it.edited_by)
                or (act in ("Approve", "Reject") and it.state is not ApprovalState.PENDING)
                or (act == "Undo" and it.undone is not None)
            ):
                return
            number = len(self.acknowledged) + 1
            if act == "reply":
                last = max(n for n, flight in enumerate(self.pigeon.arrived, 1) if flight.choices)
                await self._deliver(house, f"update:{number}", EDITED.strip(), replies_to=f"feather-{last}")
            else:
                await self._deliver(house, f"update:{number}", self._button(act))
            await trio.sleep(QUIET_S)
        raise AssertionError(f"{act} has had no effect")

    def _button(self, label: str) -> str:
        return [choice.says for flight in self.pigeon.arrived for choice in flight.choices if choice.label == label][-1]

    async def _deliver(self, house: TestDaemon, key: str, text: str, replies_to: str = "") -> None:
        """The platform repeats what was not acknowledged."""
        if key in self.acknowledged:
            return
        await house.daemon.host.receive(
            "pigeon",
            [Inbound(connector="pigeon", sender="pigeon:ann", key=key, text=text, replies_to=replies_to)],
            "",
        )
        self.acknowledged.add(key)

    async def look(self, label: str) -> None:
        """Whenever the daemon died: a request is pending and nothing is written, or it is decided and all of it is."""
        async with open_store(str(self.folder / "daycare.db"), self.clock, inline=True) as store:
            it = await store.of(ApprovalRows).get(1)
            agent = await store.agents.at("/ann/pigeon")
            if it is None or agent is None:
                return
            ours = [
                version
                for version in await store.of(DocumentRows).history(memory_of(agent))
                if version.by.author != "direct:ann" and not version.by.reason.startswith("request 1 was undone")
            ]
            carried_out = it.state in (ApprovalState.APPROVED, ApprovalState.EDITED)
            assert len(ours) == carried_out, f"{label}: {it.state}, {ours}"
            told = [row for row in await store.inbox.waiting(agent.id) if row.envelope.key == "approval:1"]
            history = await store.turns.history(agent.id, 1, 100)
            heard = [message for message in history if message.text.startswith("Message from /system/approvals")]
            decided = it.state is not ApprovalState.PENDING
            known = await store.inbox.receipt(await _seq(store._db))
            assert len(told) <= decided and (known is not None) == decided, label
            assert len([message for message in heard if "was undone" not in message.text]) <= decided, label

    async def judge(self, label: str, texts: set[str]) -> None:
        """Assert that the story has ended as it may."""
        async with open_store(str(self.folder / "daycare.db"), self.clock, inline=True) as store:
            it = await store.of(ApprovalRows).get(1)
            agent = await store.agents.at("/ann/pigeon")
            assert it is not None and agent is not None
            assert [each.no for each in await store.of(ApprovalRows).find()] == [1], f"{label}: proposed once"
            document = await store.of(DocumentRows).get(memory_of(agent))
            expected = {f"# Memory\n{text}" if not text.startswith("- by") else text for text in texts}
            assert ({document.text} if document else set()) == expected, label
            history = await store.turns.history(agent.id, 1, 100)
            left = (await store.inbox.counts())["waiting"], await store.outbox.count(), await store.dead.find()
        assert left == (0, 0, []), f"{label}: {left}"
        heard = [message.text for message in history if message.text.startswith("Message from /system/approvals")]
        assert len(heard) == 1 + ("Undo" in self.acts), f"{label}: {heard}"
        said = [message.text for message in history if message.text.startswith("told: Request 1")]
        assert len(said) == 1, f"{label}: the follow-up turn happens once: {said}"
        assert _users(history)[0] == ASKED, label
        firsts = [flight.outbox for flight in self.pigeon.arrived if not flight.maybe_duplicate]
        assert len(firsts) == len(set(firsts)), f"{label}: nothing arrives twice without its mark"
        shown = {flight.outbox for flight in self.pigeon.arrived if flight.text.startswith("**Request 1**")}
        assert len([outbox for outbox in shown if outbox]) >= 1, label


async def _seq(db: object) -> int:
    row = db.execute("SELECT seq FROM inbox WHERE key = 'approval:1'").fetchone()  # type: ignore[attr-defined]
    return int(row[0]) if row else 0


def _users(history: list[Message]) -> list[str]:
    return [message.text for message in history if message.role == "user"]


@pytest.mark.parametrize("late", [False, True], ids=["after the commit", "before the next"])
@pytest.mark.parametrize("name", STORIES)
async def test_a_crash_at_every_commit_of_a_story(
    autojump_clock: object, tmp_path: Path, name: str, late: bool
) -> None:
    acts, texts = STORIES[name]
    whole = Drama(tmp_path / "whole", acts)
    whole.folder.mkdir()
    doom = Doom()
    await whole.run(doom)
    await whole.judge(name, texts)
    begin = 0 if name == "approve" else whole.proposed_at  # up to there all stories are the same
    for n in commits(15, begin=begin + (8 if late else 1)):
        drama = Drama(tmp_path / str(n), acts)
        drama.folder.mkdir()
        label = f"{name}, commit {n}, {'late' if late else 'at once'}"
        if not await drama.run(Doom(n, late=late)):
            break
        await drama.look(label)
        assert not await drama.run(Doom())
        await drama.judge(label, texts)
    assert n > begin + 5, "there are as many commits as a story takes"
