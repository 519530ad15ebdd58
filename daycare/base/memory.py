"""What a tool may do with its agent's memory."""

from typing import Literal, Protocol


class Memory(Protocol):
    """What a tool's agent remembers, and its documents.

    What is returned is for the model: texts stand between marks, as data. Paths are as in `daycare memory list`. Which
    document a path means, and whether a change is made or a person asked first, is decided by the daemon: the caller
    reads what became of it, and waits for nobody. A repeat of the call after a crash finds what the first did. All
    raise `InvalidError` for what is no path, `NotFoundError` for what is not there.
    """

    async def read(self, path: str) -> str:
        """Return a document, or, for a text such as `memory 12`, the memory of that number with its provenance."""
        ...

    async def listing(self, prefix: str = "") -> str:
        """Return what there is below a folder, a line each; empty for everything."""
        ...

    async def search(
        self,
        query: str,
        *,
        tier: str = "",
        since: str = "",
        until: str = "",
        entity: str = "",
        path: str = "",
        limit: int = 10,
    ) -> str:
        """Return what fits a query best, a line each: number, tier, time, where it is from, score, words.

        `tier` is one of log, fact, entity and chunk; `since` and `until` are days of the user, the latter not included;
        `entity` is a name; `path` an agent's, a document's or a folder's. Without a filter documents follow that have
        words of the query and no passage among the memories. Raises `InvalidError` DATE_INVALID, TIER_UNKNOWN.
        """
        ...

    async def change(
        self, verb: Literal["write", "append", "delete"], path: str, text: str | None, reason: str, section: str = ""
    ) -> str:
        """Replace a document, add to it, or delete it (no text). `reason` is for the person who decides.

        What is added goes below the heading `section`, or to the end without one.

        Raises `ForbiddenError` for a document of identity, `ConflictError` MEMORY_ECHO for an addition that was just
        read, DOCUMENT_CHANGED for a text that was written upon an older version, `BusyError` past the requests that an
        agent may make.
        """
        ...

    async def log(self, text: str) -> str:
        """Add one line to the agent's log of today."""
        ...

    async def propose_identity(self, path: str, text: str, reason: str, section: str = "") -> str:
        """Propose a new text of SOUL.md, STYLE.md, IDENTITY.md or USER.md; it is always asked for.

        With a `section` the text is what is to be added below that heading.
        """
        ...
