"""Messages on their way, and the life of one as stretches of time. Times are wall-clock milliseconds."""

from typing import Literal, NamedTuple

import msgspec


class PathScope(NamedTuple):
    """A path, and with `below` all paths below it; the empty one with `below` is everything."""

    root: str
    below: bool

    @classmethod
    def of(cls, pattern: str) -> "PathScope":
        """Return the scope of a path or of `<path>/**`."""
        return cls(pattern.removesuffix("/**"), pattern.endswith("/**"))

    def has(self, path: str) -> bool:
        """Whether a path lies in it."""
        return path == self.root or (self.below and path.startswith(f"{self.root}/"))


EVERYWHERE = PathScope("", below=True)


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """A message that came into an inbox, or a reply that left over a connector; `seq` is its number there.

    `source` and `target` are paths or names of what lies outside: a connector, `webhook`, `system`. `ended_at` is when
    it was answered or delivered, None before.
    """

    kind: Literal["message", "reply"]
    seq: int
    at_ms: int
    source: str
    target: str
    trace: str
    state: str
    turn: int | None = None
    ended_at: int | None = None


class TrafficPage(msgspec.Struct, frozen=True, kw_only=True):
    """Movements in a span of time, the newest first. `next` is the `before` of the next page, None: no more."""

    since_ms: int
    until_ms: int
    movements: tuple[Movement, ...]
    next: str | None = None


class FoundTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace that was searched for; `what` is the thing that fits, at `path`."""

    trace: str
    at_ms: int
    path: str
    what: str


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time in the life of a message: it waited, a turn ran, a model was called, a reply went out, ...

    `depth` is how far it stands below what caused it, which comes before it. `end_ms` None: it goes on. `error` says
    why it failed, `hint` what helps. `turn` and `seq` are the numbers of its turn and of its message or reply. Tokens
    and cost (millionths of a US dollar) are of calls of models.
    """

    kind: Literal["message", "wait", "turn", "recall", "summary", "steer", "model", "tool", "failure", "reply", "dead"]
    name: str
    path: str
    start_ms: int
    end_ms: int | None
    depth: int = 0
    state: str = ""
    error: str = ""
    hint: str = ""
    turn: int | None = None
    seq: int | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0


class TraceStory(msgspec.Struct, frozen=True, kw_only=True):
    """All spans of a trace, in the order of a tree. `ended_at` None: something of it goes on; `now_ms` is until then.

    `cut`: there were more than are shown.
    """

    trace: str
    started_at: int
    ended_at: int | None
    now_ms: int
    input_tokens: int
    output_tokens: int
    cost_micros: int
    spans: tuple[TraceSpan, ...]
    cut: bool = False
