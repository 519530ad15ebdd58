"""What comes in over a connector: a batch and the place to read on from, in one commit."""

from collections.abc import Sequence
from typing import Final

import apsw
from msgspec.structs import replace

from daycare.base.errors import BusyError, DaycareError, InvalidError, UnavailableError
from daycare.base.limits import FRAGMENT_MAX_CHARS
from daycare.base.messages import Envelope, EnvelopeKind, Lane
from daycare.base.roles import of_connector
from daycare.store.records import Arrival, Fragment, PairingRequest, Taken
from daycare.store.sqlite import inbox, letters, mailbox, people, strangers
from daycare.store.sqlite.writer import Tx, Writer

CONNECTOR_NAMES_MAX: Final = 1_000  # values that one connector remembers
CONNECTOR_VALUE_MAX_CHARS: Final = 4_000

_CURSOR = "cursor"


class IntakeStore:
    """The way in, and the few values that a connector keeps over restarts."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

    async def take(
        self,
        connector: str,
        entries: Sequence[Arrival | PairingRequest | Fragment],
        cursor: str = "",
        role: str = "",
    ) -> list[Taken]:
        """Commit a batch in order together with the cursor, all or nothing; return what became of each.

        Idempotent by the keys of messages and fragments. A message for a full inbox becomes a dead letter that can be
        replayed. An edit of an answered message becomes a NOTE. Strangers are only counted. Raises `UnavailableError`
        CONNECTOR_MOVED with a cursor on a node without the `role`, that of the connector by its name if none is given.
        """

        def run(tx: Tx) -> list[Taken]:
            if cursor and not tx.holds(role or of_connector(connector)):
                raise UnavailableError(
                    "CONNECTOR_MOVED",
                    f"receiving over {connector}: another node is connected with it by now",
                    hint="it receives the same there",
                )
            taken = [_take(tx, connector, entry) for entry in entries]
            if cursor:
                _remember(tx, connector, _CURSOR, cursor)
            return taken

        size = sum(len(entry.envelope.text) for entry in entries if isinstance(entry, Arrival))
        return await self._write(run, size + 512 * len(entries))

    async def recall(self, connector: str, name: str = _CURSOR) -> str:
        """Return a remembered value, empty if there is none."""
        row = self._reader.execute(
            "SELECT value FROM connector_memory WHERE connector = ? AND name = ?", (connector, name)
        ).fetchone()
        return str(row[0]) if row else ""

    async def recall_all(self, connector: str, prefix: str) -> dict[str, str]:
        """Return every remembered value whose name begins with `prefix`, by name."""
        rows = self._reader.execute(
            "SELECT name, value FROM connector_memory WHERE connector = ? AND substr(name, 1, ?) = ?",
            (connector, len(prefix), prefix),
        )
        return {str(name): str(value) for name, value in rows}

    async def remember(self, connector: str, name: str, value: str) -> None:
        """Keep a value, or forget it if it is empty; idempotent. Past `CONNECTOR_NAMES_MAX` the oldest names go."""
        if len(value) > CONNECTOR_VALUE_MAX_CHARS or len(name) > CONNECTOR_VALUE_MAX_CHARS:
            what = f"remembering {name[:80]} of {connector}: more than {CONNECTOR_VALUE_MAX_CHARS} characters"
            raise InvalidError("VALUE_TOO_LONG", what)
        await self._write(lambda tx: _remember(tx, connector, name, value))


def _remember(tx: Tx, connector: str, name: str, value: str) -> None:
    if not value:
        tx.run("DELETE FROM connector_memory WHERE connector = ? AND name = ?", (connector, name))
        return
    tx.run(
        "INSERT INTO connector_memory (connector, name, value, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (connector, name) DO UPDATE SET value = excluded.value, at = excluded.at",
        (connector, name, value, tx.now),
    )
    if name != _CURSOR:
        tx.run(
            "DELETE FROM connector_memory WHERE connector = ?1 AND name IN (SELECT name FROM connector_memory"
            " WHERE connector = ?1 AND name <> ?2 ORDER BY name = ?4 DESC, at DESC, name LIMIT -1 OFFSET ?3)",
            (connector, _CURSOR, CONNECTOR_NAMES_MAX, name),
        )


def _take(tx: Tx, connector: str, entry: Arrival | PairingRequest | Fragment) -> Taken:
    if isinstance(entry, PairingRequest):
        return Taken(show_code=strangers.pairing_request(tx, entry))
    if isinstance(entry, Fragment):
        _keep_fragment(tx, connector, entry)
        return Taken(refused=entry.reason)
    whose = entry.envelope.user if entry.user is None else entry.user.parent
    if whose is not None and people.is_removed(tx, whose):
        return Taken(stranger=True)  # removed since it was judged: nothing is kept of it, as of anybody unknown
    envelope = _as_edit(tx, entry)
    try:
        if entry.user is not None:
            people.add_part(tx, entry.user, envelope.origin)
        return Taken(receipt=inbox.post(tx, envelope, entry.create), envelope=envelope)
    except BusyError as full:
        return _set_aside(tx, envelope, full)
    except DaycareError as refused:  # nobody lives at the path, or somebody else has the key by now
        fragment = Fragment(
            key=envelope.key,
            code=refused.code,
            reason=refused.message,
            body=envelope.text,
            user=envelope.user,
            path=envelope.to,
        )
        _keep_fragment(tx, connector, fragment)
        return Taken(refused=refused.message)


def _as_edit(tx: Tx, entry: Arrival) -> Envelope:
    """An edit of what was answered already is noted; of what still waits, or was given up, it is a message."""
    envelope = entry.envelope
    if not entry.edits:
        return envelope
    row = tx.one(
        "SELECT i.state, i.kind FROM inbox i JOIN agents a ON a.id = i.agent_id WHERE a.path = ? AND a.state <> 'dead'"
        " AND i.key = ?",
        (envelope.to, entry.edits),
    )
    if row is None or row[0] == mailbox.DEAD:
        return envelope
    edit = replace(envelope, cause=replace(envelope.person, edits=entry.edits))
    if row[0] != mailbox.DONE or row[1] == EnvelopeKind.NOTE:  # what was only noted may yet be asked
        return edit
    return replace(edit, kind=EnvelopeKind.NOTE, lane=Lane.MESSAGES)  # it commands nothing any more


def _set_aside(tx: Tx, envelope: Envelope, full: DaycareError) -> Taken:
    """An inbox is full: the message becomes a dead letter that can be replayed, and its key stays known."""
    agent = tx.one("SELECT id FROM agents WHERE path = ? AND state <> 'dead'", (envelope.to,))
    assert agent is not None, "an inbox that is full has an agent"
    receipt = mailbox.insert_dead(tx, str(agent[0]), envelope, full.message)
    letters.bury(tx, "inbox", receipt.seq, receipt.agent_id, envelope, full.code, full.message, 0)
    return Taken(refused=full.message)


def _keep_fragment(tx: Tx, connector: str, fragment: Fragment) -> None:
    key = f"{connector}:{fragment.key}"  # two bots count their updates alike
    known = tx.one("SELECT 1 FROM dead_letters WHERE source = 'intake' AND trace = ?", (key,))
    if known is None:
        body = fragment.body[:FRAGMENT_MAX_CHARS]
        letters.insert(
            tx, "intake", 0, "", fragment.path, fragment.user, "person", key, fragment.code, fragment.reason, 1, body
        )
