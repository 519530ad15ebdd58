"""Messages that their people deleted on their platform before anybody read them: these are not answered."""

from collections.abc import Sequence

from daycare.store.records import InboxRow


def taken_back(rows: Sequence[InboxRow]) -> frozenset[int]:
    """Return which of these rows others of them delete, with what corrects those, by number.

    A platform's id of a message holds in its chat; who may delete there is for the platform to say.
    """
    if not any(row.envelope.person.deletes for row in rows):
        return frozenset()
    deleted = {_place(row, row.envelope.person.deletes) for row in rows if row.envelope.person.deletes}
    said = [row for row in rows if row.envelope.person.message and not row.envelope.person.deletes]
    gone = {row.seq: row.envelope.key for row in said if _place(row, row.envelope.person.message) in deleted}
    keys = set(gone.values())
    return frozenset((*gone, *(row.seq for row in rows if row.envelope.person.edits in keys)))


def _place(row: InboxRow, message: str) -> tuple[str, str, str]:
    return row.envelope.sender.partition(":")[0], row.envelope.person.chat, message
