"""Documents as they are stored, and as an agent sees them: readings, listings, hits, changes that are not made yet."""

from typing import Literal

import msgspec

from daycare.base.documents import Attribution, DocumentVersion, NewVersion, Place
from daycare.base.errors import BusyError
from daycare.base.limits import DAILY_LOGS_MAX, DOCUMENTS_MAX


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A version with its text; None is the text of a deletion."""

    version: DocumentVersion
    text: str | None


class DocumentTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The living documents of one owner together; daily logs are counted apart."""

    documents: int
    bytes: int
    daily_logs: int
    daily_bytes: int


def check_room(place: Place, there: DocumentTotals) -> None:
    """Raise `BusyError` DOCUMENTS_FULL if an owner who has so many documents may have no other."""
    what, count, most = (
        ("daily logs", there.daily_logs, DAILY_LOGS_MAX)
        if place.daily
        else ("documents", there.documents, DOCUMENTS_MAX)
    )
    if count >= most:
        raise BusyError(
            "DOCUMENTS_FULL",
            f"writing {place}: there are {count} {what} already, at most {most}",
            hint="delete what is not needed any more: daycare memory rm",
        )


class DocumentReading(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it is now. `layer` is where it comes from, or `view`; a view has the version 0."""

    path: str
    layer: str
    text: str
    hash: str
    version: int
    updated_at: int


class DocumentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a listing. `path` reads this very document: the plain path, or one that names the layer."""

    path: str
    layer: str
    size: int
    hash: str
    version: int
    updated_at: int


class DocumentHit(msgspec.Struct, frozen=True, kw_only=True):
    """A document that a search found, with the passage that fits best."""

    path: str
    layer: str
    version: int
    passage: str


class LayerState(msgspec.Struct, frozen=True, kw_only=True):
    """One layer that may have a document: its newest version, a deletion, too, and whether it is what is read."""

    layer: str
    path: str
    newest: DocumentVersion | None
    wins: bool


class DocumentTotal(msgspec.Struct, frozen=True, kw_only=True):
    """The size of an agent's own documents, daily logs left out, and what to say about it from 80 % of the bound on."""

    documents: int
    bytes: int
    warning: str


class DocumentDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A change that is not made yet: what it would do, and to what.

    `approver`: `operator` for what concerns everybody, `user` for what is one person's. `old` and `base_hash` are what
    is there now (None, empty: nothing); `new` None deletes. `total` is what it would come to.
    """

    path: str
    place: Place
    user: str
    approver: Literal["user", "operator"]
    old: str | None
    new: str | None
    base_hash: str
    total: DocumentTotal

    def by(self, attribution: Attribution, *, key: str = "") -> NewVersion:
        """Return what to write for it: `DocumentRows.write`, or `DocumentPort.write` inside of a transaction."""
        return NewVersion(
            place=self.place, user=self.user, by=attribution, text=self.new, base_hash=self.base_hash, key=key
        )
