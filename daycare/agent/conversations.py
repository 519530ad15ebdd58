"""The ended turns of conversations, as prompts show them: each is read, stamped and counted once, not in each call.

What is known of a conversation only grows at its end, like the conversation. It is read again when turns change that
have ended (`forget`), when another session or time zone holds, and when more of it is wanted than was read.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from daycare.agent import tokens
from daycare.agent.prompt import stamped
from daycare.agent.underway import Underway
from daycare.base.messages import File
from daycare.store.records import Commit
from daycare.store.records_conversations import PastTurn
from daycare.store.records_prompts import digest_of_messages
from daycare.store.sqlite.summaries import Summaries
from daycare.tools.offer import called_in

KNOWN_MAX_CHARS: Final = 12_000_000  # of stored JSON, of all conversations: about 10 MB; 30 busy ones of 200 turns
_TURN_CHARS: Final = 1_000  # what the objects of a turn take beside its words


class StampedTurn(msgspec.Struct, frozen=True):
    """A turn that has ended, each message of a person with its local time.

    `tokens` and `digest` are right where no message has `files`. `called` are the tools that were called in it, and
    the groups of tools that were asked for.
    """

    past: PastTurn
    tokens: int
    files: bool
    digest: bytes
    called: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """What it takes of the bound."""
        return self.past.chars + _TURN_CHARS


class Stretch(msgspec.Struct, frozen=True):
    """The newest turns of a conversation, oldest first. `whole`: there are no others where they were looked for."""

    turns: Sequence[StampedTurn]
    whole: bool


class _Known(msgspec.Struct):
    """The turns after `after` up to `through`, none of which is open. What is older was over `max_chars`, if any."""

    session: int
    zone: str
    after: int
    through: int
    max_chars: int = 0
    turns: list[StampedTurn] = []  # msgspec gives each its own
    size: int = 0

    def serves(self, session: int, zone: str, after: int, before: int, max_chars: int) -> bool:
        """Return whether what is asked for is known, but for its end."""
        is_all = self.after <= after or max_chars <= self.max_chars
        return (self.session, self.zone) == (session, zone) and is_all and after <= self.through < before

    def drop(self, count: int) -> None:
        """Forget the oldest turns."""
        if count:
            self.after = self.turns[count - 1].past.turn
            self.size -= sum(turn.size for turn in self.turns[:count])
            del self.turns[:count]


class Conversations:
    """Reads conversations; those read last are kept, up to `KNOWN_MAX_CHARS`."""

    def __init__(self, store: Summaries) -> None:
        self._store = store
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._size = 0
        self._underway = Underway()

    def committed(self, commit: Commit) -> None:
        """Read everything again if a commit changed what had ended; drop those of agents that may have ended."""
        if commit.forgotten or commit.people:
            self.forget()
        for agent_id in commit.agents:
            if (dropped := self._known.pop(agent_id, None)) is not None:
                self._size -= dropped.size
            self._underway.drop(agent_id)

    def forget(self) -> None:
        """Read everything again: the words of a turn that has ended have changed."""
        self._underway.drop_all()
        self._known.clear()
        self._size = 0

    async def newest(
        self, agent_id: str, session: int, zone: str, *, after: int, before: int, max_chars: int
    ) -> Stretch:
        """Return the newest ended turns between two numbers, as `Summaries.newest` does."""
        with self._underway.reading(agent_id) as read:
            known, found = await self._read(agent_id, session, zone, after, before, max_chars)
            if read.is_current:
                self._keep(agent_id, known)
        return found

    async def _read(
        self, agent_id: str, session: int, zone: str, after: int, before: int, max_chars: int
    ) -> tuple[_Known, Stretch]:
        known = self._known.pop(agent_id, None)  # nobody else goes on with it meanwhile
        self._size -= known.size if known is not None else 0
        if known is None or not known.serves(session, zone, after, before, max_chars):
            known = _Known(session, zone, after, after)
        past = await self._store.newest(agent_id, session, after=known.through, before=before, max_chars=max_chars)
        if not past.whole:  # they alone are too many
            known = _Known(session, zone, past.turns[0].turn - 1, known.through, max_chars)
        fresh = [_stamped(turn, zone) for turn in past.turns]
        settled = [turn for turn in fresh if turn.past.turn <= past.settled]
        known.turns += settled
        known.size += sum(turn.size for turn in settled)
        known.through = max(known.through, past.settled)
        known.drop(sum(turn.past.turn <= after for turn in known.turns))
        turns = [*known.turns, *fresh[len(settled) :]]
        too_old = _too_old(turns, max_chars)
        if too_old:
            known.drop(min(too_old, len(known.turns)))
            known.max_chars = max_chars
        return known, Stretch(turns[too_old:], whole=not too_old and known.after <= after)

    async def apart(self, agent_id: str, session: int, zone: str, *, after: int, before: int) -> Sequence[StampedTurn]:
        """Return the ended turns between two numbers, for who looks back: nothing that is known changes."""
        past = await self._store.newest(agent_id, session, after=after, before=before, max_chars=KNOWN_MAX_CHARS)
        return [_stamped(turn, zone) for turn in past.turns]

    def _keep(self, agent_id: str, known: _Known) -> None:
        self._size += known.size - (replaced.size if (replaced := self._known.get(agent_id)) is not None else 0)
        self._known[agent_id] = known
        while self._size > KNOWN_MAX_CHARS:
            _, oldest = self._known.popitem(last=False)
            self._size -= oldest.size


def _too_old(turns: Sequence[StampedTurn], max_chars: int) -> int:
    """Return how many turns are over the bound, the oldest of them; at least one is not."""
    chars = 0
    for number, turn in enumerate(reversed(turns)):
        chars += turn.past.chars
        if chars > max_chars and number:
            return len(turns) - number
    return 0


def _stamped(turn: PastTurn, zone: str) -> StampedTurn:
    shown = msgspec.structs.replace(turn, messages=stamped(turn.messages, zone))
    files = any(isinstance(part, File) for message in shown.messages for part in message.parts)
    digest = b"" if files else digest_of_messages(shown.messages)
    return StampedTurn(shown, tokens.of_messages(shown.messages, past=True), files, digest, called_in(turn.messages))
