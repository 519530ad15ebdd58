"""What a store takes and hands out of documents: texts that people and agents keep, in versions."""

import msgspec

from daycare.base.documents import DocumentVersion, Place
from daycare.base.errors import BusyError
from daycare.base.limits import (
    DAILY_LOGS_MAX,
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
