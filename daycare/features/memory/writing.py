"""What an agent does with its memory: it reads freely, writes where that was allowed, and proposes everything else.

Where a change goes and whose yes it needs follows from the path, the settings and what the store knows of the turn.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, Literal
from zoneinfo import ZoneInfo

import trio
from msgspec.structs import replace

from daycare.actors.permission_checks import PermissionChecks
from daycare.agent.provenance import OTHERS, Provenance
from daycare.agent.readings import RECALLING, recalled, told_in
from daycare.base import foreign
from daycare.base.clock import Clock
from daycare.base.consent import IDENTITY, IDENTITY_DOCUMENTS, LOG, REQUEST, Consent, chosen
from daycare.base.documents import Attribution, Layer, Place
from daycare.base.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.limits import APPROVALS_PAGE, DAILY_LINE_MAX_CHARS, DOCUMENT_PROVENANCE_MAX, DOCUMENT_REASON_MAX_CHARS
from daycare.base.path import Kind
from daycare.base.permission import TOOL, WRITE_MEMORY, Decision
from daycare.base.sections import added
from daycare.base.times import local_time
from daycare.features.approvals.records import SKILLS, Approval, ApprovalState, DocumentAction
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import ApprovalAsk, ApprovalsService
from daycare.features.memory.conversation_log import is_echo
from daycare.features.memory.documents.records import DocumentDraft, LayerState
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import Documents, head_of
from daycare.features.memory.reading import TurnReading
from daycare.features.memory.search.lookup import Lookup
from daycare.rules.consent import Need, needed, within
from daycare.rules.document_paths import DAILY, MEMORY, parse
from daycare.rules.taint import Sources
from daycare.settings import Live
from daycare.store.records import Agent, InboxRow, Step, Turn, User
from daycare.store.sqlite.store import Store

ECHO_INLINE_MAX_CHARS: Final = 10_000  # compared with what was recalled at once, some 5 ms; more in a thread

Verb = Literal["write", "append", "delete"]

KIND_OUTSIDE: Final = "memory-outside"  # apart, so that no yes in advance for the agent's own memories covers it
KIND_IDENTITY: Final = "identity"

_TALKS: Final = (Kind.CONNECTOR, Kind.SUBUSER, Kind.AGENT)  # kinds that a person speaks with directly
_PREFIXES: Final = {
    Layer.AGENT: "",
    Layer.USER: "shared/",
    Layer.GLOBAL: "global/",
    Layer.WORKSPACE: "workspace/",
    Layer.PROJECT: "project/",
}
_SECTION_MAX_CHARS: Final = 120  # of a heading: a line of its own
_DOING: Final = {"write": "writing", "append": "adding to", "delete": "deleting"}


class Remembering:
    """Makes an agent's memory for each call of a tool."""

    def __init__(
        self,
        store: Store,
        documents: Documents,
        approvals: ApprovalsService,
        live: Live,
        clock: Clock,
        lookup: Lookup,
        *,
        permissions: PermissionChecks,
        provenance: Provenance,
    ) -> None:
        self.store = store
        self.documents = documents
        self.approvals = approvals
        self.live = live
        self.clock = clock
        self.lookup = lookup
        self.permissions = permissions
        self.provenance = provenance

    def of(self, agent: Agent, user: User, turn: Turn, step: int) -> "TurnMemory":
        """Return the memory of an agent as one call may use it."""
        return TurnMemory(self, agent, user, turn, step)


class TurnMemory(TurnReading):
    """See `daycare.plugin.Memory`. Calls of one step can be repeated after a crash: what is done or asked for is so."""

    def __init__(self, home: Remembering, agent: Agent, user: User, turn: Turn, step: int) -> None:
        super().__init__(home.permissions, home.store, home.documents, home.lookup, agent, user, turn, step)
        self._home = home
        self._permission = Decision.ASK
        self._changes = 0  # asked for by this call so far: a tool may make several

    # -- changing ------------------------------------------------------------------------------------------------------

    async def change(self, verb: Verb, path: str, text: str | None, reason: str, section: str = "") -> str:
        """Change a document at once, or propose it to who decides; return what became of it.

        What is added goes below the heading `section`, which is made where it is missing.
        """
        section = _heading(foreign.text(section))
        if done := await self._begin(path, f"memory_{verb}"):
            return done
        text, reason = None if verb == "delete" else foreign.text(text or ""), foreign.text(reason)
        if verb != "delete" and parse(path).name == MEMORY:
            with suppress(NotFoundError):  # it was deleted: what is written begins it again
                # Else its first reader would change what is proposed on.
                await self._documents.read(self._agent, path)
        draft = await self._documents.prepare(self._agent, path, text, append=verb == "append", section=section)
        if draft.place.name in IDENTITY_DOCUMENTS:
            raise ForbiddenError(
                "IDENTITY_FIXED",
                f"{_DOING[verb]} {path}: who the agent is changes by the owner's yes alone",
                hint="propose it with identity_propose",
            )
        _, rows, steps = await self._home.store.turns.load(self._turn.turn)
        _refuse_stale(verb, path, draft, steps, await self._documents.explain(self._agent, path))
        if verb == "append":
            await self._refuse_echo(path, text or "", steps, draft.old or "")
        action = _action(verb, draft, text or "", section)
        return await self._carry_out(f"memory_{verb}", draft, action, reason, rows, steps)

    async def log(self, text: str) -> str:
        """Add a line to the agent's log of today."""
        # The turn's own time stays the same when the call is repeated after a crash, also past midnight.
        now = local_time(self._turn.started_at, ZoneInfo(self._user.zone))
        path = f"{DAILY}{now:%Y-%m-%d}.md"
        if done := await self._begin(path, LOG):
            return done
        line = " ".join(foreign.text(text).split())
        if not line or len(line) > DAILY_LINE_MAX_CHARS:
            raise InvalidError(
                "DAILY_LINE", f"adding to the daily log: {len(line)} characters, from 1 to {DAILY_LINE_MAX_CHARS}"
            )
        entry = f"- {now:%H:%M} {line}\n"
        draft = await self._documents.prepare(self._agent, path, entry, append=True)
        _, rows, steps = await self._home.store.turns.load(self._turn.turn)
        await self._refuse_echo(path, line, steps, draft.old or "")
        return await self._carry_out(LOG, draft, _action("append", draft, entry), "", rows, steps)

    async def propose_identity(self, path: str, text: str, reason: str, section: str = "") -> str:
        """Propose a new text of a document of identity to who decides; it is never written without their yes.

        With a `section` the text is what is to be added below that heading.
        """
        if path not in IDENTITY_DOCUMENTS:
            known = ", ".join(IDENTITY_DOCUMENTS)
            raise InvalidError("IDENTITY_PATH", f"proposing a change of {path[:80]!a}: expected one of {known}")
        if done := await self._begin(path, IDENTITY):
            return done
        text, reason = foreign.text(text), foreign.text(reason)
        if section := _heading(foreign.text(section)):
            there, _ = await self._documents.approved(self._agent, path)
            text = added(there.text if there else "", text, section)
        draft = await self._documents.prepare(self._agent, path, text)
        _, rows, steps = await self._home.store.turns.load(self._turn.turn)
        return await self._carry_out(IDENTITY, draft, _action("write", draft, text), reason, rows, steps)

    # -- doing or asking -----------------------------------------------------------------------------------------------

    async def _carry_out(
        self,
        tool: str,
        draft: DocumentDraft,
        action: DocumentAction,
        reason: str,
        rows: Sequence[InboxRow],
        steps: Sequence[Step],
    ) -> str:
        """Do a change at once if a rule, or a yes in this conversation, covers it; otherwise ask for it."""
        turn = self._home.provenance.of_turn(rows, steps)
        before = await self._home.provenance.before(self._agent, self._user, self._turn, steps)
        direct = self._user.kind == "person" and self._agent.kind in _TALKS and turn.clean and before.clean
        call = (tool, self._agent.path, _spelled(draft.place), turn.origins)
        need = needed(chosen(self._home.live.now.approvals, self._agent.config.approvals), *call, direct=direct)
        if draft.approver != "user" or self._permission is not Decision.ALLOW:
            need = Need(Consent.ALWAYS)  # what concerns everybody, or a rule has asked for
        if draft.place.name.startswith(SKILLS) and need.consent is Consent.SESSION:
            need = Need(Consent.ALWAYS)  # who approves a skill has to have read it
        approver = await self._approver(tool, draft, action, need)
        if approver is None:
            kind = KIND_IDENTITY if tool == IDENTITY else REQUEST if direct else KIND_OUTSIDE
            return await self._ask(kind, draft, action, reason, turn + before)
        # Of what is only remembered others' words count: a reminder of last week does not mark each entry from then on.
        sources = turn + Sources(tuple(source for source in before.read if source.origin in OTHERS))
        by = Attribution(
            origin=sources.origin,
            author=self._agent.path,
            approver=approver,
            reason=_cut(reason),
            provenance=(*sources.provenance[: DOCUMENT_PROVENANCE_MAX - 1], self._told),
        )
        if action.verb == "append":
            new = replace(draft.by(by, key=self._key), text=action.text, base_hash=None)
            await self._home.store.of(DocumentRows).append(new, action.head, action.section)
        else:
            await self._home.store.of(DocumentRows).write(draft.by(by, key=self._key))
        return self._done(draft.path, draft.total.warning)

    async def _approver(self, tool: str, draft: DocumentDraft, action: DocumentAction, need: Need) -> str | None:
        """Return whose yes covers a change that is to be made at once, empty if it needs none; None: it is asked."""
        if need.consent is Consent.ALWAYS:
            return None
        if tool != LOG and action.verb != "delete" and await self._home.approvals.scan(action.text):
            return None
        return "" if need.consent is Consent.AUTO else await self._said_yes(draft.place, action.verb, need)

    async def _said_yes(self, place: Place, verb: Verb, need: Need) -> str | None:
        """Return who approved such a change in this conversation, if anybody did and let it stand."""
        found = await self._home.store.of(ApprovalRows).find(
            decider=self._agent.user, states=(ApprovalState.APPROVED,), limit=APPROVALS_PAGE
        )
        for it in found:
            there = it.action.place
            if there is not None and (
                (it.agent_id, it.session, it.kind) == (self._agent.id, self._turn.session, REQUEST)
                and it.action.verb == verb
                and it.undone is None
                and (there.layer, _top(there)) == (place.layer, _top(place))
                and within(_spelled(there), need.documents)
            ):
                return it.decided_by
        return None

    async def _ask(self, kind: str, draft: DocumentDraft, action: DocumentAction, reason: str, sources: Sources) -> str:
        it = await self._home.approvals.request(
            self._agent,
            ApprovalAsk(
                kind=kind,
                action=action,
                turn=self._turn.turn,
                step=self._step,
                reason=_cut(reason),
                provenance=sources.provenance,
                trace=self._turn.trace,
                session=self._turn.session,
                mark=self._mark,
            ),
        )
        return _told(it, draft.path, draft.total.warning)

    async def _begin(self, path: str, tool: str) -> str | None:
        """Return what this very change came to before a crash, whatever the settings or the document say by now."""
        self._changes += 1
        it = await self._home.store.of(ApprovalRows).by_key(self._key)
        if it is not None:
            return _told(it, path)
        states = await self._documents.explain(self._agent, path)
        newest = states[0].newest if states else None
        if newest is not None and await self._home.store.of(DocumentRows).once(newest.place, self._key):
            return self._done(path)
        agent = self._agent.path
        self._permission = await self._permissions.check(agent, WRITE_MEMORY, agent, can_ask=True)
        if (await self._permissions.may(agent, f"{TOOL}{tool}", agent)).decision is Decision.ASK:
            self._permission = Decision.ASK  # by the change itself, not by the call
        return None

    def _done(self, path: str, warning: str = "") -> str:
        return f"done: {path} is changed{warning and f'. Note: {warning}'}"

    @property
    def _key(self) -> str:
        """The name of this change, as the service makes it of an `ApprovalAsk`."""
        return f"{self._agent.id}:{self._turn.turn}:{self._step}{self._mark and f':{self._mark}'}"

    @property
    def _mark(self) -> str:
        return f"{self._changes}" if self._changes > 1 else ""

    @property
    def _told(self) -> str:
        """The name of this change for people, as a version's last source."""
        number = f"change {self._mark} in " if self._mark else ""
        return f"{number}step {self._step} of turn {self._turn.turn}"

    async def _refuse_echo(self, path: str, text: str, steps: Sequence[Step], there: str) -> None:
        """What was read out of memory does not go back into it: it would only grow, and lose where it came from."""
        known = [there, *(result for step in _recalls(steps) for result in _results(step))]
        if len(text) + sum(map(len, known)) > ECHO_INLINE_MAX_CHARS:
            echo = await trio.to_thread.run_sync(is_echo, text, known)
        else:
            echo = is_echo(text, known)
        if echo:
            raise ConflictError(
                "MEMORY_ECHO",
                f"adding to {path}: this was just read out of memory, and is kept there already",
                hint="add only what is new; to change what is there, use memory_write",
            )


def _refuse_stale(
    verb: Verb, path: str, draft: DocumentDraft, steps: Sequence[Step], layers: Sequence[LayerState]
) -> None:
    """A text that was written upon an older version would take back what somebody changed since."""
    newest = layers[0].newest
    if verb != "write" or newest is None:
        return
    for step in reversed(list(_recalls(steps))):
        if step.name == "memory_read" and step.arguments.get("path") == path:
            read = [document for told in told_in([step.message] if step.message else []) for document in told.documents]
            if not read:
                return
            if read[0].version < newest.version if read[0].layer == draft.place.layer else draft.old is not None:
                raise ConflictError(
                    "DOCUMENT_CHANGED",
                    f"writing {path}: it was changed since it was read in this turn",
                    hint="read it again, and repeat the change on what it says now",
                )
            return


def _recalls(steps: Sequence[Step]) -> Iterator[Step]:
    return (step for step in steps if step.kind == "tool" and step.name in RECALLING and step.message is not None)


def _results(step: Step) -> list[str]:
    return recalled([step.message]) if step.message is not None else []


def _action(verb: Verb, draft: DocumentDraft, text: str, section: str = "") -> DocumentAction:
    head = head_of(draft.place) if verb == "append" and draft.old is None else ""
    return DocumentAction(verb=verb, place=draft.place, text=text, head=head, section=section)


def _heading(section: str) -> str:
    """Return the name of a section as one line, without the signs that make it a heading."""
    return " ".join(section.split()).lstrip("#").strip()[:_SECTION_MAX_CHARS]


def _spelled(place: Place) -> str:
    """Return a document as rules name it: an agent's own without a prefix."""
    return f"{_PREFIXES[place.layer]}{place.name}"


def _top(place: Place) -> str:
    """Return the folder of a document, or the document where it is in none."""
    return place.name.partition("/")[0]


def _told(it: Approval, path: str, warning: str = "") -> str:
    if it.state in (ApprovalState.APPROVED, ApprovalState.EDITED):
        return f"request {it.no} is approved already: {path} is changed"
    if it.state is not ApprovalState.PENDING:
        return f"request {it.no} is {it.state}: {path} is not changed by it"
    note = f" Note: {warning}." if warning else ""
    return (
        f"proposed, request {it.no}: {path} is not changed yet. A person decides, perhaps much later, and you will be"
        f" told. Go on without it, do not ask again, and do not say that it is done.{note}"
    )


def _cut(reason: str) -> str:
    line = " ".join(reason.encode(errors="replace").decode().split())
    return line if len(line) <= DOCUMENT_REASON_MAX_CHARS else f"{line[: DOCUMENT_REASON_MAX_CHARS - 3]}..."
