"""The chat commands by which people decide what agents ask for: `/approvals /approve /reject /edit /undo`.

A pressed button is one of these commands, with the beginning of the content hash that was shown. Whoever types one is
known by their connector key; what is shown of others' requests is nothing.
"""

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Answer, Command, Commands, who_asks
from daycare.approvals.desk import Desk, Person, batch_hash, unflagged
from daycare.approvals.views import line, name_of, quoted
from daycare.base.clock import Clock
from daycare.base.errors import ConflictError, NotFoundError
from daycare.base.limits import CHOICES_MAX
from daycare.base.messages import Choice
from daycare.store.contract import PeopleStore
from daycare.store.records import Agent, InboxRow, Shows
from daycare.store.records_approvals import Approval, ApprovalState

_NO_MAX_DIGITS = 18  # more do not fit a row's number
_QUOTED_MAX_CHARS = 3_000  # of a text to be edited: one message


class ApprovalCommands:
    """Answers these commands."""

    def __init__(self, desk: Desk, people: PeopleStore, clock: Clock) -> None:
        self._desk = desk
        self._people = people
        self._clock = clock

    def add_to(self, commands: Commands) -> None:
        """Register them."""
        commands.add("approvals", Command("show what waits for your decision", self._list))
        commands.add("approve", Command("let a request be carried out [NUMBER]", self._approve, hidden=True))
        commands.add("reject", Command("refuse a request [NUMBER, and why]", self._reject, hidden=True))
        commands.add("edit", Command("change what a request would write [NUMBER TEXT]", self._edit, hidden=True))
        commands.add("undo", Command("take back what a request did [NUMBER]", self._undo, hidden=True))

    async def _list(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
        by = await self._who(row)
        everything = await self._desk.open(by.user)
        pending = [it for it in everything if _is_here(agent, it)]
        if not pending:
            return Answer("Nothing waits for your decision here.")
        now_ms = self._clock.now_ms()
        lines = [f"- {line(it, now_ms)}" for it in pending]
        together = [
            Choice(f"Approve {len(batch)} of {kind}", f"/approve all {kind} {batch_hash(batch)[:16]}")
            for kind in dict.fromkeys(it.kind for it in pending)
            if len(batch := unflagged(pending, kind)) > 1 and len(pending) == len(everything)
        ]
        shows = [Choice(f"Show {it.no}", f"/approve {it.no}") for it in pending]
        return Answer("\n".join(lines), choices=(*shows[: CHOICES_MAX - len(together)], *together))

    async def _approve(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
        by = await self._who(row)
        words = rest.split()
        if len(words) == 3 and words[0] == "all":
            return await self._approve_all(words[1], by, words[2])
        if not words:
            pending = [it for it in await self._desk.open(by.user) if _is_here(agent, it)]
            if len(pending) != 1:
                return await self._list(agent, lane, row, "")
            return await self._shown(agent, by, pending[0])
        it = await self._request(words[0])
        if len(words) == 1 and not (_is_here(agent, it) and await self._desk.seen_for_sure(it)):
            return await self._shown(agent, by, it)
        try:
            done = await self._desk.decide(it.no, "approve", by, words[1] if len(words) > 1 else it.content_hash)
        except ConflictError as error:
            if error.code != "APPROVAL_CHANGED" or not _is_here(agent, it):
                raise
            return await self._shown(agent, by, it, f"{error.message}.\n\n")
        return _approved(done)

    async def _approve_all(self, kind: str, by: Person, seen: str) -> Answer:
        done = await self._desk.approve_all(kind, by, seen)
        lines = [_approved(it).text if error is None else str(error) for it, error in done]
        return Answer("\n".join(lines))

    async def _reject(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
        by = await self._who(row)
        number, _, why = rest.partition(" ")
        it = await self._request(number)
        await self._desk.decide(it.no, "reject", by, it.content_hash, why=why.strip())
        more = "" if why.strip() else f" /reject {it.no} WHY would have told it why."
        return Answer(f"Rejected: request {it.no}. Nothing was changed.{more}")

    async def _edit(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
        by = await self._who(row)
        words = rest.split(maxsplit=1)
        it = await self._request(words[0] if words else "")
        if len(words) > 1:
            edited = await self._desk.decide(it.no, "edit", by, it.content_hash, text=_ended(it, words[1]))
            return await self._shown(agent, by, edited)
        if it.decider != by.user or it.state is not ApprovalState.PENDING or not _is_here(agent, it):
            return await self._shown(agent, by, it)
        text = it.action.text
        now = quoted(text) if len(text) <= _QUOTED_MAX_CHARS else "(too long to be quoted here)"
        return Answer(
            f"Reply to this message with the text of request {it.no} as it should be, or write /edit {it.no} TEXT."
            f" I show you what it would change before anything is written. The text is now:\n\n{now}",
            shows=Shows(it.no, ""),  # for replies; the change itself is not in it
        )

    async def _undo(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
        by = await self._who(row)
        it = await self._desk.undo((await self._request(rest.split()[0] if rest else "")).no, by)
        return Answer(f"Undone: {name_of(it)} is as it was before request {it.no}.")

    async def _shown(self, agent: Agent, by: Person, it: Approval, before: str = "") -> Answer:
        """Show a request with its buttons to the one who may decide it, where others do not read along."""
        await self._desk.check(it, by)
        if it.state is not ApprovalState.PENDING:
            by_whom = f" by {it.decided_by}" if it.decided_by else ""
            return Answer(f"{before}Request {it.no} is {it.state} already{by_whom}.")
        if not _is_here(agent, it):
            return Answer(f"{before}Request {it.no} is nothing for this chat: look at it in one of your own.")
        reply = await self._desk.reply(it.no, "", agent.user)
        return Answer(before + reply.text, choices=reply.choices, files=reply.files, shows=reply.shows)

    async def _who(self, row: InboxRow) -> Person:
        """Return who speaks, by the key that the connector has authenticated; nobody we know decides nothing."""
        user = await who_asks(self._people, row)
        return Person(user.id if user else "", row.envelope.sender)

    async def _request(self, number: str) -> Approval:
        if not (number.isascii() and number.isdecimal() and len(number) <= _NO_MAX_DIGITS):
            raise NotFoundError("APPROVAL_UNKNOWN", "Which request? It needs its number", hint="/approvals lists them")
        return await self._desk.get(int(number))


def _is_here(agent: Agent, it: Approval) -> bool:
    """Return whether a request may be shown in a conversation: the decider's own, or that of the group that asks."""
    return agent.user in (it.decider, it.user)


def _approved(it: Approval) -> Answer:
    words = "Approved with your text" if it.state is ApprovalState.EDITED else "Approved"
    if it.version is None:
        return Answer(f"{words}: request {it.no}. {name_of(it)} said so already.")
    what = f"{name_of(it)} is at version {it.version} now"
    return Answer(f"{words}: request {it.no}. {what}.", choices=(Choice("Undo", f"/undo {it.no}"),))


def _ended(it: Approval, text: str) -> str:
    """A message has no line break at its end; a document that had one keeps it."""
    return f"{text}\n" if it.action.text.endswith("\n") and not text.endswith("\n") else text
