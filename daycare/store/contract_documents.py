"""What every store promises of documents: versions only ever come behind the newest, and say what they always said."""

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
    """Documents by place (layer, owner, name), each a line of versions whose numbers rise, deletions included.

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

    async def append(self, new: NewVersion, head: str = "", section: str = "") -> DocumentVersion:
        """Append a version that has `new.text` behind the newest text, on a line of its own.

        Where there is none, `head` stands before it. With a `section` it goes below that heading.
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

    async def before(self, place: Place, version: int) -> Document | None:
        """Return the version before one, None if there is none, or none any more."""

    async def thin(self) -> int:
        """Delete a bounded number of old versions, or let them take less space; return how many (0: all done).

        Of each document there stay some dozens of the newest, the last of each day and later of each month, the newest
        of each origin with and without a person behind it, those that requests for approval have written with
        the ones before them, those that pending requests build on, that chunks are of, and that a turn may write again.
        """
        ...

    async def once(self, place: Place, key: str) -> DocumentVersion | None:
        """Return the version that was written under a key; as long as a turn that wrote it has not ended, it stays."""

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
