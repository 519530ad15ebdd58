"""What a store takes and hands out of approvals: what an agent asks a person for, and what became of it."""

import hashlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.documents import Layer, Place, check_text, digest
from daycare.base.errors import ConflictError
from daycare.base.messages import Origin
from daycare.base.sections import added
from daycare.features.approvals.questions import QuestionAction
from daycare.store.records import Agent, Reply

SEEN_MIN_CHARS = 8  # of a content hash: as many as a button carries
SKILL_PROPOSE = "skill_propose"  # the tool: who approves a skill has to have read it
AGENT_PROPOSE = "agent_propose"  # the tool: so has who approves an agent
SKILLS = "skills/"  # what the names of documents that are skills begin with
GRANTABLE = frozenset({"memory"})  # kinds that may be approved in advance; of any other each one is asked for


class ApprovalState(StrEnum):
    """Where a request stands; only a pending one can be decided, and only once."""

    PENDING = "pending"
    APPROVED = "approved"
    EDITED = "edited"  # approved with a text that a person wrote
    REJECTED = "rejected"
    EXPIRED = "expired"
    STALE = "stale"  # what it was about has changed so that it cannot be done any more


class ApprovalFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something suspicious in a text. `excerpt` is the passage, at `start` to `end` of what was looked at.

    `kind` is the rule that found it, "" in requests of before.
    """

    severity: Literal["warning", "danger"]
    meaning: str
    kind: str = ""
    excerpt: str = ""
    start: int = 0
    end: int = 0


class DocumentAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="document", tag_field="type"):
    """Change a document: `write` replaces it, `append` puts `text` behind it, `delete` needs no text.

    `head` stands before an appended text where there is no document yet; `section` is the heading below which it goes,
    "" for the end.
    """

    verb: Literal["write", "append", "delete"]
    place: Place
    text: str = ""
    head: str = ""
    section: str = ""

    @property
    def name(self) -> str:
        """What it is to be done with."""
        return self.place.name

    def bare(self, instead: str) -> "DocumentAction":
        """Return it without its words."""
        return replace(self, text=instead if self.text else "", head="")

    def after(self, before: str | None) -> str | None:
        """Return the text that comes of it; None for a deletion. Must agree with what the store does."""
        if self.verb == "delete":
            return None
        if self.verb == "write":
            return self.text
        return added(self.head if before is None else before, self.text, self.section)


class CallAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="call", tag_field="type"):
    """Make a call of a tool, with just these arguments, in a turn of the agent that asks.

    `others`: it wanted to make it when it had read others' words. Of one that changes the text at `where`, `old` and
    `new` are shown in place of the arguments; None: there is none.
    """

    tool: str
    arguments: dict[str, Any]
    others: bool = False
    place: None = None
    where: str = ""
    old: str | None = None
    new: str | None = None

    @property
    def verb(self) -> Literal["call"]:
        """What is to be done."""
        return "call"

    @property
    def name(self) -> str:
        """What it is to be done with."""
        return self.tool

    @property
    def text(self) -> str:
        """What it would write, or the arguments as people read them, each on lines of its own."""
        if self.new is not None:
            return self.new
        return "".join(
            f"{name}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}\n"
            for name, value in self.arguments.items()
        )

    def after(self, before: str | None) -> str | None:
        """Return what is shown as new."""
        return None if self.old is not None and self.new is None else self.text

    def bare(self, instead: str) -> "CallAction":
        """Return it without its words."""
        return replace(self, arguments={"": instead}, old=None, new=None)


Action = DocumentAction | CallAction | QuestionAction


class NewApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A request to be made.

    `key` names the call that asks: a repeat of it finds the first. `path` and `user` are the agent's; `decider` is the
    id of the user who may decide. `base_hash` is that of the document as it was looked at. `salt` makes the content
    hash one that nobody can work out who only knows the content.
    """

    key: str
    kind: str
    agent_id: str
    path: str
    user: str
    decider: str
    action: Action
    base_hash: str
    salt: str
    reason: str = ""
    provenance: tuple[str, ...] = ()
    findings: tuple[ApprovalFinding, ...] = ()
    trace: str = ""
    session: int = 0


class Approval(NewApproval, frozen=True, kw_only=True):
    """A request as it stands.

    `content_hash` binds who asks, the action and the version that it builds on; it changes with each `revision`.
    `edited_by` and `decided_by` are connector keys, with the token that was used if there was one. `version` is the
    document's that it led to, None where the text was there already; `undone` is the one that took it back. `made_in`
    is the turn that makes an approved call.
    """

    no: int
    content_hash: str
    state: ApprovalState = ApprovalState.PENDING
    revision: int = 1
    edited_by: str = ""
    created_at: int = 0
    expires_at: int = 0
    decided_at: int | None = None
    decided_by: str = ""
    why: str = ""
    version: int | None = None
    undone: int | None = None
    made_in: int | None = None

    @property
    def flagged(self) -> bool:
        """Whether there is something suspicious about it."""
        return bool(self.findings)

    @property
    def alone(self) -> bool:
        """Whether no yes in advance may cover calls like it: it is suspicious, or has to be read each time.

        An address alone is not suspicious: many a call has one, and a person sees it.
        """
        return is_suspicious(self.findings) or self.action.name in (SKILL_PROPOSE, AGENT_PROPOSE)

    @property
    def grantable(self) -> bool:
        """Whether a yes in advance may cover it: never who an agent is, a skill, nor what concerns everybody."""
        place = self.action.place
        own = (
            place is not None
            and place.layer is not Layer.GLOBAL
            and place.name not in IDENTITY_DOCUMENTS
            and not place.name.startswith(SKILLS)
        )
        return own and self.kind in GRANTABLE and not self.flagged

    @property
    def turn(self) -> int:
        """The number of the turn that asked, 0 if its key names none."""
        number = self.key.partition(":")[2].partition(":")[0]
        return int(number) if number.isdecimal() else 0

    @property
    def seen(self) -> str:
        """The beginning of the content hash, as buttons carry it."""
        return self.content_hash[:SEEN_MIN_CHARS]


class AskedWords(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn answered when it asked for something: who said it when, and how it begins."""

    text: str
    sender: str
    origin: Origin
    at_ms: int


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """New content of a pending request, or the same content on a new base. `edited_by` is empty for the latter."""

    action: Action
    base_hash: str
    salt: str
    findings: tuple[ApprovalFinding, ...] = ()
    edited_by: str = ""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent asks for of one kind is approved at once until then (wall ms), unless it is flagged."""

    agent_id: str
    kind: str
    user: str
    by: str
    until: int


class Letter(msgspec.Struct, frozen=True):
    """A message that shows a request, and the agent in whose conversation it appears."""

    agent: Agent
    reply: Reply


def is_suspicious(findings: Sequence[ApprovalFinding]) -> bool:
    """Return whether something is found that no call needs."""
    return any(each.kind != "address" for each in findings)


Show = Callable[[Approval], Letter | None]  # called within the commit, so it must be quick


def content_hash(new: NewApproval | Revision, agent_id: str, kind: str) -> str:
    """Return the hash of all that an approval binds."""
    bound = (new.salt, agent_id, kind, new.base_hash, new.action)
    return hashlib.sha256(msgspec.json.encode(bound)).hexdigest()


def measured(action: Action, before: str | None) -> str | None:
    """Return the text that comes of an action.

    Raises `InvalidError` for what cannot be kept, `ConflictError` APPROVAL_POINTLESS where nothing would change.
    """
    after = action.after(before)
    if not isinstance(action, DocumentAction):
        check_text(action.text, action.name)
        return after
    if after is not None:
        check_text(after, str(action.place))
    if digest(after) == digest(before):
        there = "it says exactly that already" if before is not None else "it is not there"
        what = f"{action.verb} of {action.place.name}"
        raise ConflictError("APPROVAL_POINTLESS", f"{what}: {there}", hint="read it first")
    return after
