"""Giving up a message that waits, because somebody wants it: before its agent takes it, or not at all."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec
import trio

from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.base.errors import ConflictError, DaycareError, NotFoundError
from daycare.base.messages import Lane
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite.inbox import Inbox, in_work
from daycare.store.sqlite.store import Store

Ask = Callable[[str, bytes, str], Awaitable[bytes]]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, int, str]).decode


async def _nobody(name: str, arguments: bytes, about: str) -> bytes:
    raise AssertionError("a daemon that works alone asks no other")


class Dropping:
    """Drops messages where their agents work, which other nodes are asked for. `awake` are the lanes, by agent."""

    def __init__(self, store: Store, directory: Directory, awake: Mapping[str, Activation]) -> None:
        self._inbox, self._share, self._directory = store.inbox, store.share, directory
        self._awake = awake
        self.ask: Ask = _nobody

    async def drop(self, agent: Agent, seq: int, reason: str) -> None:
        """Make a waiting message a dead letter. Raises as `Inbox.drop`, and NODE_SILENT where its node does not answer.

        Asked for again after that, it either does it or says that nothing waits there any more.
        """
        if self._share.owns(agent.user):
            await drop(self._inbox, self._awake, agent, seq, reason)
        else:
            await self.ask("drop", _encode((agent.id, seq, reason)), f"dropping message {seq} of {agent.path}")

    async def asked(self, arguments: bytes) -> bytes | None:
        """Do it for another node, if the agent's user is this one's."""
        agent_id, seq, reason = _decode(arguments)
        agent = await self._directory.get(agent_id)
        if not self._share.owns(agent.user):
            return None
        await drop(self._inbox, self._awake, agent, seq, reason)
        return b"null"


async def drop(inbox: Inbox, awake: Mapping[str, Activation], agent: Agent, seq: int, reason: str) -> None:
    """Make a waiting message of an agent a dead letter. Raises as `Inbox.drop`; `awake` are the lanes, by agent.

    A lane holds rows in memory: what it has taken out of them is about to be in a turn, if that is not journaled yet.
    """
    lane = awake.get(agent.id)
    row = None
    if lane is not None and seq <= lane.loaded:
        row = next((row for row in lane.rows if row.seq == seq and row.envelope.lane is Lane.MESSAGES), None)
        if row is None and await inbox.rows([seq]):
            raise in_work(agent.path, seq)
        lane.drop({seq} if row is not None else set())
    inbox.leaving.add(seq)  # a lane that reads now, or wakes, does not begin a turn with it
    try:
        with trio.CancelScope(shield=True):  # who asked may leave: the row is gone, or comes back
            await inbox.drop(agent, seq, reason)
    except DaycareError as error:
        if row is None and not isinstance(error, (NotFoundError, ConflictError)):
            row = next(iter(await inbox.rows([seq])), None)
        if not isinstance(error, NotFoundError):  # it waits on
            _put_back(awake.get(agent.id), row)
        raise
    finally:
        inbox.leaving.discard(seq)
        if (lane := awake.get(agent.id)) is not None:
            lane.reworded = True  # what is being read may still have it


def _put_back(lane: Activation | None, row: InboxRow | None) -> None:
    if lane is None or row is None or row.seq > lane.loaded:
        return  # who has not read so far finds it there
    after = sum(each.seq < row.seq or each.envelope.lane is Lane.CONTROL for each in lane.rows)
    lane.rows.insert(after, row)
    lane.nudge()
