"""What is seen of an agent's documents: readings, listings, hits, and changes that are not made yet."""

from typing import Literal

import msgspec

from daycare.base.documents import Attribution, DocumentVersion, NewVersion, Place


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
