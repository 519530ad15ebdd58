"""What still waits once nobody wants anything new: it is late while things go on, and stuck once they do not.

All that an agent waits for is done for its user, on the node that has the shard of that user: something is stuck once
no turn of that user has ended for long; while they do end, the machine is slow.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import trio

from daycare.store.postgres.connection import PostgresConnection
from daycare.store.share import shard_of
from tests.crash.ledger import Finding

STUCK_S: Final = 90.0  # without the end of any turn of a user, while something waits for them
_SHOWN: Final = 300
_NAME: Final = re.compile(r"\b(s\d+)[ -](\d+)\b|\b(w\d+x\d+)\b|\b(?:approved_|request )(\d+)\b")
_WAITING: Final = """
SELECT 'message', i.path, i."user", to_jsonb(i)::text FROM inbox i WHERE i.state IN (0, 3)
UNION ALL SELECT 'turn', coalesce(a.path, t.agent_id), t."user", to_jsonb(t)::text FROM turns t
  LEFT JOIN agents a ON a.id = t.agent_id
  WHERE t.trying > 0 AND NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = t.turn)
UNION ALL SELECT 'timer', coalesce(a.path, t.agent_id), t."user", to_jsonb(t)::text FROM timers t
  LEFT JOIN agents a ON a.id = t.agent_id
  WHERE t.due_at < 1000 * extract(epoch FROM now() + interval '2 h') AND t.envelope LIKE '%reminded s%'
UNION ALL SELECT 'task', path, "user", to_jsonb(t)::text FROM tasks t WHERE ended_at IS NULL OR settled = 0
UNION ALL SELECT 'job', path, "user", to_jsonb(j)::text FROM cron_jobs j
  WHERE next_at IS NOT NULL AND removed_at IS NULL
UNION ALL SELECT 'run of a job', path, "user", to_jsonb(r)::text FROM cron_runs r WHERE state IN ('waiting', 'due')
UNION ALL SELECT 'request ' || no, path, "user", to_jsonb(p)::text FROM approvals p WHERE state = 'pending'
"""
_OWNERS: Final = """
SELECT s.shard, s.node, n.state = 'alive' AND n.until > now() FROM shards s LEFT JOIN nodes n ON n.node = s.node
"""


class BacklogItem(NamedTuple):
    """Something that waits: of what kind, where, for whom, and all that its row says."""

    what: str
    path: str
    user: str
    row: str


class Backlog:
    """Looks what waits, and since when nothing has ended for whom."""

    def __init__(self, db: PostgresConnection) -> None:
        self._db = db
        self.items: list[BacklogItem] = []
        self._ended: dict[str, int] = {}  # by user: turns
        self._since: dict[str, float] = {}  # by user: since when that many

    def look(self) -> None:
        """Look again. In a thread."""
        self.items = [BacklogItem(*map(str, row)) for row in self._db.simple(_WAITING)]
        for user, ended in self._db.simple('SELECT "user", count(*) FROM history GROUP BY 1'):
            if self._ended.get(str(user)) != int(str(ended)):
                self._ended[str(user)] = int(str(ended))
                self._since[str(user)] = trio.from_thread.run_sync(trio.current_time)
        for item in self.items:
            self._since.setdefault(item.user, trio.from_thread.run_sync(trio.current_time))

    def close(self) -> None:
        """Look no more."""
        self._db.close()

    def is_stuck(self, item: BacklogItem) -> bool:
        """Whether nothing has ended for long for the user that it waits for."""
        return trio.current_time() - self._since[item.user] > STUCK_S

    def findings(self) -> list[Finding]:
        """Return what is stuck, with who ought to see to it."""
        owners = {int(str(shard)): (node, alive) for shard, node, alive in self._db.simple(_OWNERS)}
        found: list[Finding] = []
        for item in filter(self.is_stuck, self.items):
            node, alive = owners[shard_of(item.user)]
            owner = f"{node}, which {'works' if alive == 't' else 'does not work'}"
            quiet_s = trio.current_time() - self._since[item.user]
            found.append(
                (
                    "stuck",
                    f"{item.what} of {item.path}: for {quiet_s:.0f} s no turn of {item.user} has ended on {owner};"
                    f" {item.row[:_SHOWN]}",
                )
            )
        return found

    def late(self, findings: Iterable[Finding]) -> set[int]:
        """Return the places of findings that are about what only waits: it is not lost."""
        names = {name for item in self.items for name in _names(f"{item.what} {item.row}")}
        return {at for at, (kind, what) in enumerate(findings) if kind == "lost" and names & _names(what)}


def _names(text: str) -> set[tuple[str, ...]]:
    return set(_NAME.findall(text))
