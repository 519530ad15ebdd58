"""What happens to memory, as events; see `events`."""

from daycare.base.event import Event


class MemoryLearned(Event, frozen=True, kw_only=True, tag="memory.learned"):
    """A memory worker has looked at log entries of the agent at `path`, up to number `through`.

    `by` is what found it, `rules` or a model's name; `reason` says why it was not the model, where one was asked.
    """

    through: int
    facts: int
    entities: int
    superseded: int
    by: str
    reason: str = ""


class MemoryRecalled(Event, frozen=True, kw_only=True, tag="memory.recalled"):
    """Memories were put into a turn's prompt: the numbers of their labels (-3 is `g3`), and their scores.

    `took_ms` is what looking them up cost the turn; `without` says why vectors were not used where there are some.
    """

    turn: int
    numbers: tuple[int, ...]
    scores: tuple[float, ...]
    took_ms: float
    without: str = ""


class MemoryForgotten(Event, frozen=True, kw_only=True, tag="memory.forgotten"):
    """Memories were removed for good, with the words of turns and versions of documents; what they said is not told."""

    memories: int
    turns: int
    versions: int


class EmbedderAway(Event, frozen=True, kw_only=True, tag="memory.embedder"):
    """The embedder fails, so that memory is searched by words alone. `cleared` marks that it works again."""

    embedder: str
    reason: str
    cleared: bool = False


class MemoryAway(Event, frozen=True, kw_only=True, tag="memory.away"):
    """Where memory is searched cannot be asked, so that nothing is recalled. `cleared` marks that it can be again."""

    server: str
    reason: str
    cleared: bool = False


class IdentityHeld(Event, frozen=True, kw_only=True, tag="identity.held"):
    """A version of a document of identity is in no prompt of an agent: no person wrote or approved it."""

    document: str
    version: int
    author: str
