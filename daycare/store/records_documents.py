"""What a store takes and hands out of documents: texts that people and agents keep, in versions."""

import msgspec

from daycare.base.documents import Attribution, DocumentVersion, Place
from daycare.base.errors import BusyError, InvalidError
from daycare.base.limits import (
    DAILY_LOGS_MAX,
    DOCUMENT_PROVENANCE_MAX,
    DOCUMENT_REASON_MAX_CHARS,
    DOCUMENTS_MAX,
)


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
