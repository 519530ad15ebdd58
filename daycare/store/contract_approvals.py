"""What every store promises of approvals: each is decided once, together with what the decision does."""

from collections.abc import Sequence
from typing import Literal, Protocol

from daycare.store.records_approvals import Approval, ApprovalState, Grant, NewApproval, Revision, Show


class ApprovalStore(Protocol):
    """Requests of agents for something that a person decides.

    `show` returns the message that shows a request to who decides; it is queued with the change, all or nothing.
    Whoever asked is told of an end by a message to that incarnation of the agent, once, in the transaction of the end;
    a dead one is not, which is counted. `NotFoundError` APPROVAL_UNKNOWN for a number that there is not.
    """

    async def request(self, new: NewApproval, show: Show) -> tuple[Approval, bool]:
        """Make a request, and return it with whether it is new.

        Idempotent on `new.key`: a repeat returns the first and shows nothing. Where the decider granted this kind to
        the agent, an unflagged one is approved and done at once, and not shown. Raises `ConflictError`
        DOCUMENT_CHANGED if the base is another by now, `BusyError` APPROVALS_OPEN at `APPROVALS_OPEN_MAX` pending
        ones of the agent and its helpers together, APPROVALS_HOURLY past `APPROVALS_PER_HOUR`.
        """
        ...

    async def check_room(self, path: str, now_ms: int) -> None:
        """Raise `BusyError` as `request` would, where work for a request that cannot be made is to be spared."""
        ...

    async def decide(
        self, no: int, verdict: Literal["approve", "reject"], *, seen: str, by: str, why: str = ""
    ) -> tuple[Approval, bool]:
        """Decide a request, do what it asks for, and tell the agent, all or nothing; return whether it was new.

        `seen` is the content hash that the decider saw, its first 8 characters at least; `by` is their connector key.
        A repeat of the very same decision is no error. Raises `ConflictError` APPROVAL_DECIDED when it is decided
        already or has expired, APPROVAL_CHANGED when `seen` is of other content, APPROVAL_BASE when the document was
        changed meanwhile; and what writing a document may raise.
        """
        ...

    async def revise(self, no: int, revision: Revision, *, seen: str) -> Approval:
        """Give a pending request new content or a new base. What was seen before decides no more.

        `seen` is the whole content hash that it has now. Raises `ConflictError` as `decide`, and DOCUMENT_CHANGED.
        """
        ...

    async def outdate(self, no: int, *, seen: str, why: str) -> Approval:
        """End a pending request that cannot be done any more as stale. Raises `ConflictError` as `decide`."""
        ...

    async def undo(self, no: int, *, by: str) -> tuple[Approval, bool]:
        """Take back what an approved request did to its document; idempotent; return whether it was new.

        Raises `ConflictError` APPROVAL_NOT_DONE for one that did nothing, DOCUMENT_CHANGED if there are newer versions.
        """
        ...

    async def expire(self, limit: int = 100) -> list[Approval]:
        """End pending requests whose time is over; return them."""
        ...

    async def get(self, no: int) -> Approval | None:
        """Return a request."""

    async def by_key(self, key: str) -> Approval | None:
        """Return the request that a call made."""

    async def find(
        self,
        *,
        decider: str | None = None,
        states: Sequence[ApprovalState] = (),
        before: int | None = None,
        limit: int = 100,
    ) -> list[Approval]:
        """Return requests, the newest first, beginning below number `before`."""
        ...

    async def shown_by(self, decider: str, connector: str, user: str, receipt: str) -> Approval | None:
        """Return the pending request for a decider that a delivered message in a user's conversation shows."""

    async def was_shown(self, no: int, content_hash: str, user: str) -> bool:
        """Return whether a message that shows this content was delivered in a user's conversation."""
        ...

    async def outlived(self, connectors: Sequence[str], after_ms: int, limit: int = 100) -> list[tuple[int, int]]:
        """Return (request, outbox row) of messages whose request is decided, the newest first.

        Those that these connectors bring and that are younger than `after_ms`, until `settle` was called for them.
        """
        ...

    async def settle(self, outbox: int) -> None:
        """Record that a message shows nothing any more that can be decided."""
        ...

    async def grant(self, grant: Grant) -> None:
        """Let a kind of request of an agent be approved at once for a while; the last one counts.

        Raises `InvalidError` GRANT_REFUSED for a kind of which each is asked for.
        """

    async def grants(self, agent_id: str | None = None) -> list[Grant]:
        """Return what was granted; `until` tells whether that is over."""
        ...
