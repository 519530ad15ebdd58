"""What conversations have read from outside: each ended turn is looked at once, not again at the end of each later one.

Of a turn little is kept, and its words are not. All is read again when turns change that have ended (`forget`).
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from daycare.agent.underway import Underway
from daycare.base.limits import SESSION_LOOKED_AT_MAX
from daycare.base.messages import Message, Origin, Told, ToolResult
from daycare.rules.taint import TaintSource, sources_in
from daycare.rules.told import told_by
from daycare.store.records import Commit
from daycare.store.sqlite.summaries import Summaries

RECALLING: Final = ("memory_read", "memory_search", "memory_ask")
_ALL: Final = 2**62
_KNOWN_MAX: Final = 100  # conversations, the latest read: each some 20 KB at most


class Looked(msgspec.Struct, frozen=True, gc=False):
    """What messages have read. `told`: an agent's own words among them carry what stood before them.

    `paths` and `origins` are of what tools of memory answered. `at_ms` is when the first was said.
    """

    messages: int = 0
    at_ms: int = 0
    told: bool = False
    sources: tuple[TaintSource, ...] = ()
    paths: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()


class _Known(msgspec.Struct):
    """The turns of a session up to `through`, none of which is open, oldest first: as many as are looked at."""

    session: int
    through: int = 0
    turns: list[Looked] = []  # msgspec gives each its own


class Readings:
    """Tells it of conversations, those read last from what is kept. `trusted` are the daemon's own tools."""

    def __init__(self, store: Summaries, trusted: Collection[str]) -> None:
        self._store = store
        self._trusted = trusted
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._underway = Underway()

    def committed(self, commit: Commit) -> None:
        """Look at everything again if a commit changed what had ended; drop those of agents that may have ended."""
        if commit.forgotten or commit.people:
            self.forget()
        for agent_id in commit.agents:
            self._known.pop(agent_id, None)
            self._underway.drop(agent_id)

    def forget(self) -> None:
        """Look at everything again: turns have changed that had ended."""
        self._underway.drop_all()
        self._known.clear()

    async def of(self, agent_id: str, session: int) -> Looked:
        """Return what the newest turns of a session have read that have so many messages together, or a few more."""
        known = self._known.pop(agent_id, None)  # nobody else goes on with it meanwhile
        if known is None or known.session != session:
            known = _Known(session)
        with self._underway.reading(agent_id) as read:
            past = await self._store.newest(
                agent_id, session, after=known.through, before=_ALL, max_chars=_ALL, max_messages=SESSION_LOOKED_AT_MAX
            )
        if not past.whole:  # they alone are enough
            known.turns = []
        fresh = [look(turn.messages, self._trusted) for turn in past.turns]
        settled = sum(turn.turn <= past.settled for turn in past.turns)
        known.turns = _enough([*known.turns, *fresh[:settled]])
        known.through = max(known.through, past.settled)
        if read.is_current:
            self._known[agent_id] = known
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)
        return together(_enough([*known.turns, *fresh[settled:]]))


def look(messages: Sequence[Message], trusted: Collection[str]) -> Looked:
    """Return what messages have read."""
    told = list(told_in(messages))
    return Looked(
        messages=len(messages),
        at_ms=messages[0].at_ms if messages else 0,
        told=any(message.role == "assistant" and message.origins is not None for message in messages),
        sources=sources_in(messages, trusted).read,
        paths=tuple(path for each in told for path in each.all_paths),
        origins=tuple(origin for each in told for origin in each.origins),
    )


def together(turns: Sequence[Looked]) -> Looked:
    """Return what turns have read, the oldest first."""
    return Looked(
        messages=sum(turn.messages for turn in turns),
        at_ms=turns[0].at_ms if turns else 0,
        told=any(turn.told for turn in turns),
        sources=tuple(source for turn in turns for source in turn.sources),
        paths=tuple(path for turn in turns for path in turn.paths),
        origins=tuple(origin for turn in turns for origin in turn.origins),
    )


def told_in(messages: Sequence[Message]) -> Iterator[Told]:
    """Yield what results have told out of memory; of results that earlier versions kept, what their texts say."""
    for part in _results(messages):
        if part.told is not None:
            yield part.told
        elif part.name in RECALLING:
            yield told_by(part.text)


def recalled(messages: Sequence[Message]) -> list[str]:
    """Return what the tools of memory answered."""
    return [part.text for part in _results(messages) if part.name in RECALLING]


def _results(messages: Sequence[Message]) -> Iterator[ToolResult]:
    parts = (part for message in messages if message.role == "tool" for part in message.parts)
    return (part for part in parts if isinstance(part, ToolResult))


def _enough(turns: list[Looked]) -> list[Looked]:
    """Return the newest turns, until there are as many messages as are looked at."""
    messages = 0
    for number, turn in enumerate(reversed(turns)):
        if messages >= SESSION_LOOKED_AT_MAX:
            return turns[len(turns) - number :]
        messages += turn.messages
    return turns
