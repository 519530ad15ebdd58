"""What was heard in the store: with what it cost, and as the words of the message that it came with."""

from collections.abc import Sequence

from daycare.base.messages import Envelope, File, Origin
from daycare.store.records import Agent, InboxRow, Reply, Spend
from daycare.store.sqlite import files, mailbox, outbox
from daycare.store.sqlite.facts import CallPaid
from daycare.store.sqlite.files import FileBytes
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.writer import Tx


class VoiceRows(Rows):
    """Reads and writes them. They are files and messages: it has no tables."""

    async def waiting(self, limit: int) -> list[InboxRow]:
        """Return the oldest message of each agent that has yet to be heard, those first that came first."""
        oldest = (
            "seq IN (SELECT min(seq) FROM inbox WHERE state = 0 AND kind = 'voice'"
            " /* nodes: AND mine(user) */ GROUP BY agent_id ORDER BY 1"
            " LIMIT ?) ORDER BY seq"
        )
        return mailbox.ROWS.find(self._reader, oldest, (limit,))

    async def keep(
        self, key: str, user: str, origin: Origin, name: str, media_type: str, data: bytes, spend: Spend | None
    ) -> File:
        """Keep what was heard or spoken as a file, and charge the call: both, or nothing. Idempotent on the key."""

        def run(tx: Tx) -> File:
            if spend is not None:
                tx.tell(CallPaid(spend))
            return files.insert(tx, key, user, origin, name, media_type, len(data), FileBytes(data))

        return await self._write(run, len(data))

    async def reword(self, agent: Agent, row: InboxRow, envelope: Envelope, replies: Sequence[Reply] = ()) -> None:
        """Give a message its words, and say this about it. Nothing happens to one that was heard, or is gone."""

        def run(tx: Tx) -> None:
            if mailbox.reword(tx, row.seq, envelope):
                for reply in replies:
                    outbox.insert(
                        tx, (agent.id, agent.path, agent.user, str(agent.origin)), None, envelope.trace, reply
                    )

        await self._write(run, len(envelope.text))
