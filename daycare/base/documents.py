"""Documents as all parts speak of them: whose one is and where, who wrote what, and what a version is known by."""

import hashlib
from enum import StrEnum
from typing import Final

import msgspec

from daycare.base.errors import InvalidError
from daycare.base.limits import DOCUMENT_MAX_BYTES, DOCUMENT_PROVENANCE_MAX, DOCUMENT_REASON_MAX_CHARS
from daycare.base.messages import Origin

DAILY: Final = "daily/"  # what the names of daily logs begin with


class Layer(StrEnum):
    """Whose documents; of one name in several layers the first of these wins, where a name may be in several."""

    AGENT = "agent"  # owner: the agent's id
    USER = "user"  # owner: the user's id, or the scope of whom they have let in, `ann/subuser/bob`
    GLOBAL = "global"  # owner: empty
    WORKSPACE = "workspace"  # owner: as of USER
    PROJECT = "project"  # owner: as of USER; names are `<project>/<name>`


class Place(msgspec.Struct, frozen=True):
    """Where a document is. The owner comes from the runtime, never from text."""

    layer: Layer
    owner: str
    name: str

    @property
    def daily(self) -> bool:
        """Whether it is a daily log of an agent."""
        return self.layer is Layer.AGENT and self.name.startswith(DAILY)

    def __str__(self) -> str:
        return f"{self.name} ({self.layer} {self.owner})" if self.owner else f"{self.name} ({self.layer})"


class Attribution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who wrote a version and why.

    `origin`: where its words came from. `author` and `approver`: an agent's path, or a connector key such as
    `direct:ann`; `approver` is empty where nobody had to. `provenance`: the way its words came, outermost source first,
    such as `web:https://example.org`, `message:12`.
    """

    origin: Origin
    author: str
    approver: str = ""
    reason: str = ""
    provenance: tuple[str, ...] = ()

    @property
    def by_person(self) -> bool:
        """Whether a person wrote it: of authors only connector keys have a colon."""
        return ":" in self.author

    @property
    def approved(self) -> bool:
        """Whether a person stands behind it, as its author or by a yes."""
        return bool(self.approver) or self.by_person


class NewVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version to write. `text` None deletes.

    `user`: whose row it is; of a global document the writer. `base_hash`: the hash of what the writer saw, empty for
    "there is none", None for whatever there is, which is for what the runtime itself appends. `key`, if any, names this
    write for good: a repeat of it finds the first.
    """

    place: Place
    user: str
    by: Attribution
    text: str | None = None
    base_hash: str | None = None
    key: str = ""


class DocumentVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version without its text. `hash` is the SHA-256 of its text as UTF-8, empty for a deletion.

    `base_hash` is that of the version before, empty where there was none.
    """

    place: Place
    version: int
    user: str
    by: Attribution
    hash: str
    base_hash: str
    size: int
    created_at: int

    @property
    def deleted(self) -> bool:
        """Whether this version is the document's deletion."""
        return not self.hash


def digest(text: str | None) -> str:
    """Return a text's hash; empty for a deletion."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()


def check_text(text: str, what: str) -> int:
    """Return a text's size in bytes of UTF-8. Raises `InvalidError` DOCUMENT_TOO_LARGE or DOCUMENT_TEXT."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidError("DOCUMENT_TEXT", f"writing {what}: half of a surrogate pair is not text") from None
    if "\x00" in text:
        raise InvalidError("DOCUMENT_TEXT", f"writing {what}: it holds a NUL character, so it is not text")
    if size > DOCUMENT_MAX_BYTES:
        raise InvalidError(
            "DOCUMENT_TOO_LARGE",
            f"writing {what}: it would have {size} bytes, at most {DOCUMENT_MAX_BYTES}",
            hint="shorten it, or split it into several documents",
        )
    return size


def check_attribution(by: Attribution, what: str) -> None:
    """Raise `InvalidError` DOCUMENT_ATTRIBUTION if it says too much, what is no text, or not who wrote."""
    lines = (by.reason, by.author, by.approver, *by.provenance)
    fits = len(by.provenance) <= DOCUMENT_PROVENANCE_MAX and all(map(_is_line, lines))
    if not by.author or not fits:
        raise InvalidError(
            "DOCUMENT_ATTRIBUTION",
            f"writing {what}: it needs an author, and a reason and up to {DOCUMENT_PROVENANCE_MAX} sources of at most"
            f" {DOCUMENT_REASON_MAX_CHARS} characters each",
        )


def _is_line(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return len(text) <= DOCUMENT_REASON_MAX_CHARS and "\x00" not in text
