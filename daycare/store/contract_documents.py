"""What every store promises of documents: versions only ever come behind the newest; nothing is rewritten."""

from collections.abc import Sequence
from typing import Protocol

from daycare.store.records_documents import (
    Document,
    DocumentTotals,
    DocumentVersion,
    Layer,
    NewVersion,
    Place,
)


class DocumentStore(Protocol):
    """Documents by place (layer, owner, name), each a straight line of versions from 1 on, deletions included.

    What changes one raises `ConflictError` DOCUMENT_CHANGED when its newest version is not the one that `base_hash`
    names; the message tells the hash it has now. `InvalidError` DOCUMENT_TOO_LARGE past `DOCUMENT_MAX_BYTES`,
    DOCUMENT_TEXT or DOCUMENT_ATTRIBUTION for what cannot be kept; `BusyError` DOCUMENTS_FULL past `DOCUMENTS_MAX`
    living ones of one (layer, owner), of an agent's daily logs (`daily/...`) past `DAILY_LOGS_MAX`. Idempotent on
    (place, `new.key`), if there is a key: a repeat returns the first version.
    """

    async def write(self, new: NewVersion) -> DocumentVersion:
        """Append a version. The text that is there already makes none: the newest is returned, whatever the base.

        Raises `NotFoundError` DOCUMENT_MISSING for the deletion of what is not there.
        """
        ...

    async def append(self, new: NewVersion, head: str = "") -> DocumentVersion:
        """Append a version that has `new.text` behind the newest text, on a line of its own.

        Where there is none, `head` stands before it.
        """
        ...

    async def undo(self, new: NewVersion, version: int | None = None) -> DocumentVersion:
        """Append a version with the text (or the absence) before the newest; `new.text` is not looked at.

        It says of its words where they came from then; who took them back is `new.by`.
        Raises `ConflictError` DOCUMENT_CHANGED unless the newest is number `version` (None: whichever it is),
        `NotFoundError` DOCUMENT_MISSING for what never was.
        """
        ...

    async def get(self, place: Place) -> Document | None:
        """Return the newest version, None if there is none or it is a deletion."""

    async def at(self, place: Place, version: int) -> Document | None:
        """Return one version, None for a number that is not in the line."""

    async def once(self, place: Place, key: str) -> DocumentVersion | None:
        """Return the version that was written under a key."""

    async def history(self, place: Place, *, before: int | None = None, limit: int = 100) -> list[DocumentVersion]:
        """Return versions, the newest first, beginning below number `before`."""

    async def find(
        self, layer: Layer, owner: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[DocumentVersion]:
        """Return the newest versions of an owner's living documents in order of name, beginning after `after`."""

    def search(self, scopes: Sequence[tuple[Layer, str]], words: Sequence[str], limit: int = 10) -> list[Document]:
        """Return living documents of these (layer, owner) with any of the words, in any form, the best first.

        At most `DOCUMENT_SEARCH_MAX`. Blocks for long over many or long documents: call it in a thread then.
        """
        ...

    async def totals(self, layer: Layer, owner: str) -> DocumentTotals:
        """Return how many living documents an owner has, and their size."""
        ...

    async def last(self) -> int:
        """Return a number that grows with each new version of any document, and with nothing else."""
        ...

    async def owners(self, *, after: tuple[str, str] = ("", ""), limit: int = 100) -> list[tuple[Layer, str]]:
        """Return who has living documents, in order, beginning after `after`."""
        ...
