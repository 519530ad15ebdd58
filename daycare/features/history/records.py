"""What was said with an agent, as it is read page by page. Times are wall-clock milliseconds."""

import msgspec

from daycare.base.messages import Message


class ToldTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended, with all that was said, called and attached in it, and what its models took.

    `error` is why it was given up, `hint` what helps.
    `seqs` are the inbox rows that it took, those it was steered by included. `replaced_by` is the turn that stands in
    its place: no later prompt had this one. Without `prompted` no model was asked, or what it was shown is not kept any
    more.
    """

    turn: int
    session: int
    trace: str
    started_at: int
    ended_at: int
    state: str
    error: str
    messages: tuple[Message, ...]
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    hint: str = ""
    seqs: tuple[int, ...] = ()
    replaced_by: int | None = None
    prompted: bool = True


class PastSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session, and why it ended, if it did."""

    session: int
    started_at: int
    ended_at: int | None = None
    reason: str | None = None


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Turns, the newest first, and the sessions they are of. `next` is the `before` of the next page, None: no more."""

    turns: tuple[ToldTurn, ...]
    sessions: tuple[PastSession, ...]
    next: int | None
