"""What a tool may do with its agent's memory."""

from typing import Literal, Protocol


class Memory(Protocol):
    """The documents of a tool's agent. What is returned is for the model: texts stand between marks, as data.

    Paths are as in `daycare memory list`. Which document a path means, and whether a change is made or a person asked
    first, is decided by the daemon: the caller reads what became of it, and waits for nobody. A repeat of the call
    after a crash finds what the first did. All raise `InvalidError` for what is no path, `NotFoundError` for what is
    not there.
    """

    async def read(self, path: str) -> str:
        """Return a document."""
        ...

    async def listing(self, prefix: str = "") -> str:
        """Return what there is below a folder, a line each; empty for everything."""
        ...

    async def search(self, query: str) -> str:
        """Return the documents that have words of a query, the best first, each with a passage."""
        ...

    async def change(self, verb: Literal["write", "append", "delete"], path: str, text: str | None, reason: str) -> str:
        """Replace a document, add to it, or delete it (no text). `reason` is for the person who decides.

        Raises `ForbiddenError` for a document of identity, `ConflictError` MEMORY_ECHO for an addition that was just
        read, DOCUMENT_CHANGED for a text that was written upon an older version, `BusyError` past the requests that an
        agent may make.
        """
        ...

    async def log(self, text: str) -> str:
        """Add one line to the agent's log of today."""
        ...

    async def propose_identity(self, path: str, text: str, reason: str) -> str:
        """Propose a new text of SOUL.md, STYLE.md, IDENTITY.md or USER.md; it is always asked for."""
        ...
