"""The chat commands by which people decide what agents ask for: `/approvals /approve /reject /edit /undo`.

A pressed button is one of these commands, with the beginning of the content hash that was shown. Whoever types one is
known by their connector key; what is shown of others' requests is nothing.
"""

from msgspec.structs import replace

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer, Commands, who_asks
from daycare.agent.kinds import SPOKEN_WITH
from daycare.base.clock import Clock
from daycare.base.consent import CHANGES, REQUEST, Consent, chosen
from daycare.base.durations import about
from daycare.base.errors import ConflictError, NotFoundError
from daycare.base.limits import CHOICES_MAX, GRANT_MAX_S
from daycare.base.messages import Choice
from daycare.features.approvals.call_patterns import PatternWish, pattern_of
from daycare.features.approvals.questions import QuestionAction, typed
from daycare.features.approvals.records import SEEN_MIN_CHARS, Approval, ApprovalState, CallAction
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import ApprovalsService, Approver, Verdict, batch_hash
from daycare.features.approvals.views import line, name_of, quoted, quoted_inline
from daycare.settings import Live
from daycare.store.records import Agent, InboxRow, Shows
from daycare.store.sqlite.store import Store

_NO_MAX_DIGITS = 18  # more do not fit a row's number
_QUOTED_MAX_CHARS = 3_000  # of a text to be edited: one message
_POLICIES = {"session": Consent.SESSION, "always": Consent.ALWAYS, "default": None}
_MEANS = {
    Consent.AUTO: "I change what I remember without asking",
    Consent.SESSION: "I ask for a change of what I remember once in a conversation",
    Consent.ALWAYS: "I ask for each change of what I remember",
}


class ApprovalCommands:
    """Answers these commands."""

    def __init__(self, service: ApprovalsService, store: Store, live: Live, clock: Clock) -> None:
        self._service = service
        self._store = store
        self._rows = store.of(ApprovalRows)
        self._live = live
        self._clock = clock

    def add_to(self, commands: Commands) -> None:
        """Register them."""
        commands.add(
            "approvals",
            Command("show what waits for your decision, or choose when I ask [auto, session or always]", self._list),
        )
        commands.add("approve", Command("let a request be carried out [NUMBER]", self._approve, hidden=True))
        commands.add("reject", Command("refuse a request [NUMBER, and why]", self._reject, hidden=True))
        commands.add("edit", Command("change what a request would write [NUMBER TEXT]", self._edit, hidden=True))
        commands.add("answer", Command("answer what a server asks [NUMBER ANSWER]", self._answer, hidden=True))
        commands.add("dismiss", Command("leave unanswered what a server asks [NUMBER]", self._dismiss, hidden=True))
        commands.add("undo", Command("take back what a request did [NUMBER]", self._undo, hidden=True))

    async def _list(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        by = await self._who(row)
        if rest:
            return await self._choose(agent, by, rest.lower())
        pending = [it for it in await self._service.open(by.user) if _is_here(agent, it)]
        policy = f"\n\n{await self._policy(agent)}" if await self._is_own(agent, by) else ""
        calls = [it for it in await self._service.granted(by.user) if it.agent_id == agent.id]
        policy += "".join(f"\n- Without asking: {quoted_inline(str(it))}" for it in calls)
        backs = tuple(Choice(f"Take back {it.no}", f"/approvals revoke {it.no}") for it in calls)
        if not pending:
            return CommandAnswer(f"Nothing waits for your decision here.{policy}", choices=backs[:CHOICES_MAX])
        now_ms = self._clock.now_ms()
        lines = [f"- {line(it, now_ms)}" for it in pending]
        batches = {
            kind: await self._service.batch(kind, by, agent.user) for kind in sorted({it.kind for it in pending})
        }
        together = [
            Choice(f"Approve {len(batch)} of {kind}", f"/approve all {kind} {batch_hash(batch)[:16]}")
            for kind, batch in batches.items()
            if len(batch) > 1
        ]
        shows = [Choice(f"Show {it.no}", f"/approve {it.no}") for it in pending]
        choices = (*shows[: CHOICES_MAX - len(together)], *together, *backs)
        return CommandAnswer("\n".join(lines) + policy, choices=choices[:CHOICES_MAX])

    async def _choose(self, agent: Agent, by: Approver, word: str) -> CommandAnswer:
        """Set when the changes that an agent makes to its memory are asked for, where its person speaks with it."""
        verb, _, number = word.partition(" ")
        if verb == "revoke" and number.isascii() and number.isdecimal() and len(number) <= _NO_MAX_DIGITS:
            grant = await self._service.revoke(int(number), by)
            return CommandAnswer(f"I ask again before {quoted_inline(str(grant))}.")
        if not await self._is_own(agent, by):
            return CommandAnswer(
                "You choose this in a chat of your own, with an agent of yours. In a group each is asked for."
            )
        if word != Consent.AUTO and word not in _POLICIES:
            return CommandAnswer("Which one? /approvals auto, session, always or default.")
        await self._service.auto(agent, REQUEST, GRANT_MAX_S / 3600 if word == Consent.AUTO else 0, by)
        if word in _POLICIES:
            config = (await self._fresh(agent)).config
            await self._store.agents.configure(agent.id, replace(config, approvals=_POLICIES[word]))
        return CommandAnswer(await self._policy(agent))

    async def _policy(self, agent: Agent) -> str:
        """Say what is chosen, and for how long."""
        section = chosen(self._live.now.approvals, (await self._fresh(agent)).config.approvals)
        policies = [section.of(tool) for tool in CHANGES]
        each = "; ".join(f"{tool}: {policy}" for tool, policy in zip(CHANGES, policies, strict=True))
        means = _MEANS[policies[0]] if len(set(policies)) == 1 else f"It depends on the tool ({each})"
        now_ms = self._clock.now_ms()
        left = [it.until - now_ms for it in await self._rows.grants(agent.id) if it.kind == REQUEST]
        if left and left[0] > 0:
            granted = f"For {about(left[0] / 1000)} what I ask for is approved at once, unless it is suspicious"
            means = f"{granted}. After that: {means}"
        return f"{means}. /approvals auto (for a day), session or always changes that. Who I am is always asked for."

    async def _is_own(self, agent: Agent, by: Approver) -> bool:
        """Whether a person speaks with an agent of their own, and nobody else does."""
        user = await self._store.people.get(agent.user)
        alone = user is not None and user.kind == "person" and agent.kind in SPOKEN_WITH
        return alone and by.user == agent.user

    async def _fresh(self, agent: Agent) -> Agent:
        return await self._store.agents.get(agent.id) or agent

    async def _approve(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        by = await self._who(row)
        words = rest.split()
        if len(words) == 3 and words[0] == "all":
            return await self._approve_batch(words[1], agent, by, words[2])
        if not words:
            pending = [it for it in await self._service.open(by.user) if _is_here(agent, it)]
            if len(pending) != 1:
                return await self._list(agent, lane, row, "")
            return await self._shown(agent, by, pending[0])
        it = await self._request(words[0])
        if len(words) == 1 and not await self._service.seen_for_sure(it, agent.user):
            return await self._shown(agent, by, it)
        seen = words[1] if len(words) > 1 else it.content_hash
        if len(words) > 2 and words[2] in ("session", "always") and isinstance(it.action, CallAction):
            more = PatternWish(
                scope="session" if words[2] == "session" else "always",
                pattern=pattern_of(it.action),
                others=it.action.others,
            )
            if words[3:] != [more.digest(it)]:
                return await self._proposed(agent, by, it, seen, more)
            return await self._decided(agent, by, it, "approve", seen, more=more)
        return await self._decided(agent, by, it, "approve", seen)

    async def _proposed(self, agent: Agent, by: Approver, it: Approval, seen: str, more: PatternWish) -> CommandAnswer:
        """Show what would be approved in advance, with the button that does just that."""
        await self._service.check(it, by)
        if not self._is_open(it) or not _is_here(agent, it) or it.alone:
            return await self._shown(agent, by, it)
        says = f"/approve {it.no} {seen} {more.scope} {more.digest(it)}"
        return CommandAnswer(
            f"This approves request {it.no}, and I ask no more before:\n\n{quoted_inline(str(more))}",
            choices=(Choice("Yes, without asking", says), Choice("Only this once", f"/approve {it.no} {seen}")),
        )

    async def _approve_batch(self, kind: str, agent: Agent, by: Approver, seen: str) -> CommandAnswer:
        done = await self._service.approve_batch(kind, by, agent.user, seen)
        lines = [_said(it).text if error is None else str(error) for it, error in done]
        return CommandAnswer("\n".join(lines))

    async def _reject(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        by = await self._who(row)
        number, _, why = rest.partition(" ")
        it = await self._request(number)
        return await self._decided(agent, by, it, "reject", it.content_hash, why=why.strip())

    async def _edit(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        by = await self._who(row)
        words = rest.split(maxsplit=1)
        it = await self._request(words[0] if words else "")
        if isinstance(it.action, QuestionAction):  # a reply to the message that shows it
            return await self._answer(agent, lane, row, rest)
        if len(words) > 1:
            return await self._decided(agent, by, it, "edit", it.content_hash, text=_ended(it, words[1]))
        if it.decider != by.user or not self._is_open(it) or not _is_here(agent, it):
            return await self._shown(agent, by, it)
        text = it.action.text
        now = quoted(text) if len(text) <= _QUOTED_MAX_CHARS else "(too long to be quoted here)"
        return CommandAnswer(
            f"Reply to this message with the text of request {it.no} as it should be, or write /edit {it.no} TEXT."
            f" I show you what it would change before anything is written. The text is now:\n\n{now}",
            shows=Shows(it.no, ""),  # for replies; the change itself is not in it
        )

    async def _answer(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        by = await self._who(row)
        number, _, said = rest.partition(" ")
        it = await self._request(number)
        if not isinstance(it.action, QuestionAction):
            return await self._shown(agent, by, it)
        first, _, more = said.strip().partition(" ")
        pressed = len(first) >= SEEN_MIN_CHARS and it.content_hash.startswith(first)
        if not pressed and not (said.strip() and await self._rows.was_shown(it.no, it.content_hash, agent.user)):
            return await self._shown(agent, by, it)
        fields = typed(it.action.fields, (more if pressed else said).strip())
        return await self._decided(agent, by, it, "approve", it.content_hash, fields=fields)

    async def _dismiss(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        it = await self._request(rest.split()[0] if rest else "")
        if not isinstance(it.action, QuestionAction):
            return await self._shown(agent, await self._who(row), it)
        return await self._decided(agent, await self._who(row), it, "dismiss", it.content_hash)

    async def _undo(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        by = await self._who(row)
        it = await self._service.undo((await self._request(rest.split()[0] if rest else "")).no, by)
        return CommandAnswer(f"Undone: {name_of(it)} is as it was before request {it.no}.")

    async def _decided(
        self,
        agent: Agent,
        by: Approver,
        it: Approval,
        verdict: Verdict,
        seen: str,
        *,
        text: str = "",
        why: str = "",
        more: PatternWish | None = None,
        fields: dict[str, str] | None = None,
    ) -> CommandAnswer:
        """Decide, and say so; what is not decided by this, or not yet, is shown as it is."""
        before = ""
        try:
            it = await self._service.decide(it.no, verdict, by, seen, text=text, why=why, more=more, fields=fields)
            if it.state is not ApprovalState.PENDING:
                return _said(it)
        except ConflictError as error:
            if error.code not in ("APPROVAL_CHANGED", "APPROVAL_DECIDED", "APPROVAL_STALE"):
                raise
            before = f"{error.message}.\n\n" if error.code == "APPROVAL_CHANGED" else ""
        return await self._shown(agent, by, it, before)

    async def _shown(self, agent: Agent, by: Approver, it: Approval, before: str = "") -> CommandAnswer:
        """Show a request with its buttons to the one who may decide it, where others do not read along."""
        await self._service.check(it, by)
        it = await self._service.get(it.no)
        if not self._is_open(it):
            return CommandAnswer(f"{before}Request {it.no}: it is {await self._service.outcome(it, already=True)}")
        if not _is_here(agent, it):
            return CommandAnswer(f"{before}Request {it.no} is nothing for this chat: look at it in one of your own.")
        reply = await self._service.reply(it.no, "", agent.user)
        return CommandAnswer(before + reply.text, choices=reply.choices, files=reply.files, shows=reply.shows)

    def _is_open(self, it: Approval) -> bool:
        return it.state is ApprovalState.PENDING and it.expires_at > self._clock.now_ms()

    async def _who(self, row: InboxRow) -> Approver:
        """Return who speaks, by the key that the connector has authenticated; nobody we know decides nothing."""
        user = await who_asks(self._store.people, row)
        return Approver(user.id if user else "", row.envelope.sender)

    async def _request(self, number: str) -> Approval:
        if not (number.isascii() and number.isdecimal() and len(number) <= _NO_MAX_DIGITS):
            raise NotFoundError("APPROVAL_UNKNOWN", "Which request? It needs its number", hint="/approvals lists them")
        return await self._service.get(int(number))


def _is_here(agent: Agent, it: Approval) -> bool:
    """Return whether a request may be shown in a conversation: the decider's own, or that of the group that asks."""
    return agent.user in (it.decider, it.user)


def _said(it: Approval) -> CommandAnswer:
    if isinstance(it.action, QuestionAction) and it.state is not ApprovalState.STALE:
        how = "Left unanswered" if it.action.dismissed else "Declined" if it.action.answer is None else "Answered"
        return CommandAnswer(f"{how}: request {it.no}. {quoted_inline(it.action.server)} goes on with that.")
    if it.state is ApprovalState.REJECTED:
        more = "" if it.why else f" /reject {it.no} WHY would have told it why."
        return CommandAnswer(f"Rejected: request {it.no}. Nothing was changed.{more}")
    words = "Approved with your text" if it.state is ApprovalState.EDITED else "Approved"
    if it.state is ApprovalState.STALE:
        return CommandAnswer(f"Request {it.no} cannot be done any more: {it.why}. Nothing was changed.")
    if it.action.verb == "call":
        return CommandAnswer(f"{words}: request {it.no}. {it.path} uses {name_of(it)} now, and tells you the result.")
    if it.version is None:
        return CommandAnswer(f"{words}: request {it.no}. {name_of(it)} said so already.")
    if it.undone is not None:
        return CommandAnswer(f"{words}: request {it.no}. It was undone since.")
    what = f"{name_of(it)} is at version {it.version} now"
    return CommandAnswer(f"{words}: request {it.no}. {what}.", choices=(Choice("Undo", f"/undo {it.no}"),))


def _ended(it: Approval, text: str) -> str:
    """A message has no line break at its end; a document that had one keeps it."""
    return f"{text}\n" if it.action.text.endswith("\n") and not text.endswith("\n") else text
