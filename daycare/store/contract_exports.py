"""What every store promises of agents that move: read as of one moment, and brought in all at once."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from daycare.store.records_exports import Anything, Brought, FileRecord, Incoming, Opened

T = TypeVar("T")


class ExportStore(Protocol):
    """Subtrees of agents as records."""

    def snapshot(self, path: str, *, shared: bool = False) -> Opened:
        """Open the subtree of a living agent as it is now; `shared` adds what its person's agents have in common.

        What is written meanwhile is not in it, and nothing waits for it. Raises `NotFoundError` when nobody lives
        there.
        """
        ...

    async def keep_files(self, key: str, user: str, files: Sequence[tuple[int, FileRecord, bytes]]) -> list[int]:
        """Keep files (place, record, bytes) of an import in one commit; return their ids.

        Nothing names them before `bring_in`; `sweep` removes them.
        """
        ...

    async def bring_in(self, new: Incoming, records: Callable[[], Iterable[Anything]]) -> Brought:
        """Let everything be there, in one commit: checked records in their order, with paths as they are to be.

        `records` may be called again when the commit has to be tried again. Raises, with nothing changed,
        `ConflictError` PATH_TAKEN when somebody lives at one of the paths, or below the first; and what the rules of
        documents and memories refuse.
        """
        ...

    async def apart(self, work: Callable[[], T]) -> T:
        """Run what blocks for long, such as the reading of a snapshot, where it holds up nobody."""
        ...

    async def sweep(self) -> int:
        """Remove what imports left that did not come to their end; return how many files. No import may run."""
        ...
