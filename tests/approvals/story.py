"""What tests of approvals share: an agent that proposes to remember something, and the person who reads it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import trio

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.messages import Origin
from daycare.base.tool import STAYS
from daycare.features.approvals.records import Approval, ApprovalFinding, DocumentAction
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import ApprovalAsk, ApprovalsService, Approver
from daycare.features.memory.documents.rows import DocumentRows
from daycare.plugin import Inbound, Outcome, Plugin, StructTool, ToolContext
from daycare.store.records import Agent
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted

MEMORY = "MEMORY.md"
ANN = Approver("ann", "pigeon:ann")


@dataclass
class Scene:
    """A house with a pigeon, and Ann's agent there."""

    calendar: VirtualClock
    house: TestDaemon
    pigeon: FakeConnector
    model: Scripted
    agent: Agent

    async def memory(self) -> str | None:
        """Return what the agent's memory says."""
        return await remembered(self.house, self.agent)

    def last(self) -> str:
        """Return what the pigeon brought last."""
        return self.pigeon.arrived[-1].text


class Propose(msgspec.Struct, forbid_unknown_fields=True):
    """Propose to remember something."""

    text: str
    reason: str = ""
    verb: Literal["write", "append", "delete"] = "append"


@dataclass
class Proposing:
    """The tool, for whichever house is open now."""

    house: TestDaemon | None = None
    ready: trio.Event = field(default_factory=trio.Event)

    def enter(self, house: TestDaemon) -> None:
        """From now on this is the house."""
        self.house = house
        self.ready.set()

    def leave(self) -> None:
        """It has crashed."""
        self.ready = trio.Event()

    async def run(self, context: ToolContext, wish: Propose) -> str:
        """Ask for approval, as a tool of memory does."""
        await self.ready.wait()
        assert self.house is not None
        agent = await self.house.daemon.directory.at(context.path)
        action = DocumentAction(verb=wish.verb, place=memory_of(agent), text=wish.text, head="# Memory\n")
        ask = ApprovalAsk(
            kind="memory",
            action=action,
            turn=context.turn,
            step=context.step,
            reason=wish.reason,
            trace=context.trace,
            provenance=("message from the user",),
        )
        it = await self.house.daemon.approvals.request(agent, ask)
        return f"proposed, request {it.no}" if it.state == "pending" else f"done, request {it.no}"

    def plugin(self) -> Plugin:
        """Return a plugin with this tool."""
        return Plugin(name="proposing", tools=(StructTool("propose", Propose, self.run, idempotent=True, **STAYS),))


def memory_of(agent: Agent) -> Place:
    """Return where an agent's memory is."""
    return Place(Layer.AGENT, agent.id, MEMORY)


async def ann(house: TestDaemon, path: str = "/ann/pigeon") -> Agent:
    """Let Ann be reached by pigeon; return her agent there."""
    user = await house.store.people.get("ann")
    assert user is not None
    if "pigeon:ann" not in user.keys:
        await house.store.people.link("pigeon:ann", "ann")
    return await house.agent(path)


def asking(agent: Agent, text: str, step: int = 0, **more: Any) -> ApprovalAsk:
    """Return a wish to remember something."""
    verb = more.pop("verb", "append")
    place = more.pop("place", memory_of(agent))
    fields: dict[str, Any] = {"kind": "memory", "turn": 9_000, "step": step, "reason": "you said so"}
    return ApprovalAsk(action=DocumentAction(verb=verb, place=place, text=text), **(fields | more))


async def remembered(house: TestDaemon, agent: Agent) -> str | None:
    """Return what an agent's memory says."""
    found = await house.store.of(DocumentRows).get(memory_of(agent))
    return found.text if found else None


async def overwrite(house: TestDaemon, place: Place, text: str | None, base: str | None = None) -> None:
    """Change a document behind everybody's back."""
    by = Attribution(origin=Origin.PERSON, author="direct:ann")
    await house.store.of(DocumentRows).write(NewVersion(place=place, user="ann", by=by, text=text, base_hash=base))


async def settle(house: TestDaemon, for_s: float = 30.0) -> None:
    """Let everything come to rest."""
    await trio.sleep(for_s)


async def say(house: TestDaemon, key: str, text: str, **more: Any) -> str:
    """Let Ann say or press something over the pigeon; return what she is answered."""
    fields: dict[str, Any] = {"connector": "pigeon", "sender": "pigeon:ann"}
    [outcome] = await receive(house, Inbound(key=key, text=text, **(fields | more)))
    receipt = await house.store.inbox.receipt(outcome.seq)
    assert receipt is not None, outcome
    return await house.hear(receipt)


async def receive(house: TestDaemon, *items: Inbound) -> Sequence[Outcome]:
    """Take in what came over the pigeon."""
    return await house.daemon.host.receive("pigeon", items, "")


def button(pigeon: FakeConnector, label: str, number: int = -1) -> str:
    """Return what a button below the last message that has it says."""
    found = [choice.says for flight in pigeon.arrived for choice in flight.choices if choice.label == label]
    return found[number]


async def propose(scene: Scene, text: str = "- has a dog\n", step: int = 0, **more: Any) -> int:
    """Let the agent propose something and the pigeon arrive; return the request's number."""
    it = await service_of(scene.house).request(scene.agent, asking(scene.agent, text, step, **more))
    await settle(scene.house)
    return it.no


async def suspicious(text: str) -> list[ApprovalFinding]:
    """A scanner that finds addresses."""
    return [ApprovalFinding(severity="danger", meaning="a mail address", excerpt=text.strip())] if "@" in text else []


def service_of(house: TestDaemon) -> ApprovalsService:
    """Return the approvals service."""
    return house.daemon.approvals


async def only(house: TestDaemon) -> Approval:
    """Return the one request that there is."""
    [it] = await house.store.of(ApprovalRows).find()
    return it
