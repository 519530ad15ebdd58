"""The nodes that work on one database: a row for each, with a lease by the server's clock, and who has which shard.

A node that does not renew its lease is declared dead by whoever sees it, which raises its epoch: no commit of its own
happens from then on, whatever it believes, as each begins with `fence`. That also lets the nodes' commits happen one
after another, and numbers them; what others are to know of each stands in `commits` under that number.

A standby that takes over may be behind: numbers that nodes know already are given again. PostgreSQL counts such
histories as timelines, and the first node that connects to a new one notes the last commit it began with.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from daycare import __version__
from daycare.base.english import plural
from daycare.base.errors import BrokenError, DaycareError, StoreAwayError
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.errors import StatementError
from daycare.store.postgres.versions import newest, refuse_future
from daycare.store.share import chosen
from daycare.store.sqlite.sql import those

MAIN: Final = "main"  # the row of a daemon that works alone
LOOK_S: Final = 1.0
START_S: Final = 60  # that a node may take to start, in which it has no shards that others wait for
ACTS_SHARE: Final = 2 / 3  # of a lease: a node that has not renewed it for so long does nothing outside any more

_RETRY_S: Final = 0.25
JOINING: Final = f"SELECT pg_advisory_xact_lock({0x6461796362})"  # so that of two that join one sees the other

TABLES: Final = r"""
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS state text NOT NULL DEFAULT 'alive';  -- or 'left', 'dead'
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS working boolean NOT NULL DEFAULT false;  -- shards are for it, too
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS heard bigint NOT NULL DEFAULT 0;  -- the commit that it knows of last
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS key_print text NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS config_print text NOT NULL DEFAULT '';
CREATE TABLE IF NOT EXISTS shards (shard bigint PRIMARY KEY, node text COLLATE "C", epoch bigint NOT NULL DEFAULT 0);
INSERT INTO shards (shard) SELECT generate_series(0, 255) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS writing (one bigint PRIMARY KEY, number bigint NOT NULL);
INSERT INTO writing VALUES (1, 0) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS commits (number bigint PRIMARY KEY, node text NOT NULL, told text NOT NULL);
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS gone bigint NOT NULL DEFAULT 0;  -- commits that it knew, and were lost
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS gone_at timestamptz NOT NULL DEFAULT '-infinity';  -- which it saw then
CREATE TABLE IF NOT EXISTS histories (timeline bigint PRIMARY KEY, number bigint NOT NULL);  -- of commits before each
"""
FUNCTIONS: Final = r"""
CREATE OR REPLACE FUNCTION shard_of(u text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT get_byte(sha256(convert_to(u, 'UTF8')), 0)::bigint $$;
CREATE OR REPLACE FUNCTION mine(u text) RETURNS boolean LANGUAGE sql STABLE
  AS $$ SELECT coalesce(current_setting('daycare.node', true), '') = '' OR EXISTS (SELECT 1 FROM daycare.shards s
    WHERE s.shard = daycare.shard_of(u) AND s.node = current_setting('daycare.node', true)) $$;
CREATE OR REPLACE FUNCTION fence(me text, mine bigint, next bigint, known bigint, lease_ms bigint) RETURNS bigint
  LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN
    UPDATE daycare.writing SET number = number + 1 RETURNING number INTO n;
    UPDATE daycare.nodes SET batch = next, heard = known,
      until = greatest(until, clock_timestamp() + lease_ms * interval '1 ms')
      WHERE node = me AND epoch = mine AND state = 'alive';
    IF NOT FOUND THEN RETURN NULL; END IF;
    RETURN n; END $$;
CREATE OR REPLACE FUNCTION noted_timeline() RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE t bigint; BEGIN
    t := CAST(CAST('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS bit(32)) AS bigint);
    DELETE FROM daycare.histories WHERE timeline > t;
    INSERT INTO daycare.histories SELECT t, number FROM daycare.writing ON CONFLICT DO NOTHING;
    RETURN t;
  EXCEPTION WHEN feature_not_supported OR insufficient_privilege OR undefined_function
    OR object_not_in_prerequisite_state THEN RETURN 0; END $$;
"""
BURY: Final = (
    "UPDATE nodes SET epoch = epoch + 1, state = 'dead', working = false"
    " WHERE state = 'alive' AND until < clock_timestamp() RETURNING node"
)

GONE: Final = "CASE WHEN gone_at > now() - interval '1 day' THEN gone ELSE 0 END"

_WAITED: Final = "CAST(1000 * extract(epoch FROM clock_timestamp() - statement_timestamp()) AS bigint)"
_FENCE: Final = f"SELECT fence(?, ?, ?, ?, ?), {_WAITED}"
_FENCE_OF_NEXT: Final = f"SELECT 1 / CAST(coalesce(fence(?, ?, ?, ?, ?), 0) = ? AS int), {_WAITED}"


class NodeIdentity(NamedTuple):
    """Who a node is: its name, where others reach it, its lease in ms, and prints of its key and its settings."""

    name: str
    address: str
    lease_ms: int
    key_print: str
    config_print: str


class Division(NamedTuple):
    """What a node is to do about shards: `dead` nodes were found, `take` is its own by now, `give` it has to others."""

    dead: tuple[str, ...]
    take: frozenset[int]
    give: frozenset[int]


class NodeMembership:
    """The row of this node. `applied` is the number of the last commit, of anybody's, that this node knows of."""

    def __init__(self, db: PostgresConnection, identity: NodeIdentity) -> None:
        self._db = db
        self.identity = identity
        self.name = identity.name
        self.epoch = self.batch = self.timeline = 0
        self.gone = 0  # commits that it knew of before this start, and that the server had lost lately
        self.applied = self.number = 0
        self.living = 1  # nodes, this one included, when it looked last
        self.sure_until = 0.0  # by the monotonic clock: how long this node may count on its lease

    def claim(self) -> None:
        """Join. Raises `StoreAwayError` for a database that a daemon alone has, or a name that another node has, and
        `BrokenError` NODE_KEY for a key that is not the others', or STORE_FROM_FUTURE.
        """
        deadline = time.monotonic() + 1.5 * self.identity.lease_ms / 1000
        while (refusal := self._try_to_join()) is not None:
            if time.monotonic() > deadline:
                raise refusal
            time.sleep(_RETRY_S)

    def _try_to_join(self) -> StoreAwayError | None:
        db, it = self._db, self.identity
        began = time.monotonic()
        db.simple("BEGIN")
        try:
            db.simple(JOINING)
            # After commits under way, and before any row of a node is locked: as `fence` does.
            [(number,)] = db.simple("UPDATE writing SET number = number RETURNING number")
            refuse_future(db, as_node=True)  # others may have migrated it meanwhile
            db.simple(BURY)
            shown = db.location.shown
            if alone := db.simple(f"SELECT address FROM nodes WHERE state = 'alive' AND node = '{MAIN}'"):
                return StoreAwayError(
                    "STORE_IN_USE",
                    f"opening {shown}: a daycare without [node] works on it, on {alone[0][0]}",
                    hint="stop that one, and give it a [node] name, too: doc/operate/several-machines.md",
                )
            if same := db.simple(
                f"SELECT address FROM nodes WHERE state = 'alive' AND node = '{self.name}'"
                " AND EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = backend)"
            ):
                return StoreAwayError(
                    "NODE_NAME_TAKEN",
                    f"joining as {self.name}: another node of that name works at {same[0][0]}",
                    hint="give each node a [node] name of its own",
                )
            if db.simple(f"SELECT 1 FROM nodes WHERE state = 'alive' AND key_print NOT IN ('', '{it.key_print}')"):
                raise BrokenError(
                    "NODE_KEY",
                    f"joining as {self.name}: the other nodes have another vault key",
                    hint="copy daycare.key from the home of a node that works",
                )
            [(timeline,)] = db.simple("SELECT noted_timeline()")
            [(epoch, batch, gone)] = db.simple(
                "INSERT INTO nodes (node, epoch, batch, until, backend, version, address, state, working, heard,"
                f" key_print, config_print, schema) VALUES ('{self.name}', 1, 0, clock_timestamp() + interval"
                f" '{START_S} s', pg_backend_pid(), '{__version__}', '{it.address}', 'alive', false, {number},"
                f" '{it.key_print}', '{it.config_print}', {newest()}) ON CONFLICT (node) DO UPDATE SET"
                " epoch = nodes.epoch + 1, until = excluded.until, backend = excluded.backend, version ="
                " excluded.version, address = excluded.address, state = 'alive', working = false, heard ="
                " excluded.heard, key_print = excluded.key_print, config_print = excluded.config_print,"
                " schema = excluded.schema"
                f" RETURNING epoch, batch, {GONE}"
            )
            db.simple("COMMIT")
        finally:
            if db.is_open and db.in_transaction:
                db.simple("ROLLBACK")
        self.epoch, self.batch, self.applied = int(str(epoch)), int(str(batch)), int(str(number))
        self.timeline, self.gone = int(str(timeline)), int(str(gone))
        self._renewed(began)
        return None

    def fence(self, *, heard_all: bool) -> tuple[str, tuple[Any, ...]]:
        """Return the statement that begins a commit, which waits for those of others; `begun` takes its answer.

        With `heard_all` the server refuses it, and what is sent with it, where others have committed more than this
        node has heard, or where this node's epoch has gone.
        """
        values = (self.name, self.epoch, self.batch + 1, self.applied, self.identity.lease_ms)
        return (_FENCE_OF_NEXT, (*values, self.applied + 1)) if heard_all else (_FENCE, values)

    def begun(self, number: int | None, waited_ms: int, since: float) -> bool:
        """Take the answer to `fence`, sent then at the earliest; return whether this node's epoch is there still.

        What was waited on the server was before the lease was renewed: so long a wait makes nobody unsure of it.
        """
        if number is None:
            return False
        self._renewed(since + waited_ms / 1000)
        self.number = number
        return True

    def renew(self) -> bool:
        """Show that this node lives; return whether its epoch is still the one that counts."""
        began = time.monotonic()
        alive = self._db.simple(
            f"UPDATE nodes SET heard = {self.applied}, until = greatest(until, clock_timestamp() + interval"
            f" '{self.identity.lease_ms} ms') WHERE {self._me} RETURNING epoch"
        )
        if alive:
            self._renewed(began)
            self._db.simple("DELETE FROM commits WHERE number <= (SELECT min(heard) FROM nodes WHERE state = 'alive')")
        return bool(alive)

    def divide(self, db: Any) -> Division:
        """Declare nodes dead whose leases are over, take what is to be this node's, and find what is to be others'.

        In a transaction `db` that begins with `fence`, so that nobody else does at the same time.
        """
        dead = tuple(node for (node,) in db.execute(BURY).fetchall())
        db.execute(
            "UPDATE nodes SET working = true, until = clock_timestamp() + ? * interval '1 ms'"
            " WHERE node = ? AND epoch = ? AND state = 'alive' AND NOT working",
            (self.identity.lease_ms, self.name, self.epoch),
        )
        nodes = tuple(sorted(node for (node,) in db.execute("SELECT node FROM nodes WHERE working").fetchall()))
        take, give = set(), set()
        for shard, node, epoch in db.execute("SELECT shard, node, epoch FROM shards").fetchall():
            to = chosen(shard, nodes)
            if node == self.name:
                if epoch != self.epoch:
                    take.add(shard)  # of this node's last life
                elif to != self.name:
                    give.add(shard)
            elif to == self.name and node not in nodes:
                take.add(shard)
        self._set(db, take, self.name)
        return Division(dead, frozenset(take), frozenset(give))

    def is_to_divide(self) -> bool:
        """Whether there may be something to do about shards, or about nodes whose leases are over."""
        nodes: dict[str, bool] = {}
        for node, working, late in self._db.simple(
            "SELECT node, working, until < clock_timestamp() FROM nodes WHERE state = 'alive'"
        ):
            if late == "t":
                return True
            nodes[str(node)] = working == "t"
        living = tuple(sorted(node for node, working in nodes.items() if working or node == self.name))
        self.living = len(nodes)
        if not nodes.get(self.name, False):
            return True
        for shard, node, epoch in self._db.simple("SELECT shard, node, epoch FROM shards"):
            to = chosen(int(str(shard)), living)
            if (node == self.name and (to != self.name or int(str(epoch)) != self.epoch)) or (
                to == self.name and (node is None or node not in living)
            ):
                return True
        return False

    def give(self, db: Any, shards: Iterable[int]) -> None:
        """Let others take shards that this node has; in a transaction that begins with `fence`."""
        self._set(db, shards, None)

    def give_all(self, db: Any) -> None:
        """Let others take everything, and give this node nothing more; in a transaction that begins with `fence`."""
        db.execute(
            "UPDATE nodes SET working = false WHERE node = ? AND epoch = ? AND state = 'alive'", (self.name, self.epoch)
        )
        db.execute("UPDATE shards SET node = NULL WHERE node = ?", (self.name,))

    def leave(self) -> None:
        """Leave: its shards are for others at once, and need not wait until the lease is over."""
        with suppress(StoreAwayError, StatementError):
            if not self._db.is_open:
                self.reopen()
            self._db.simple(f"BEGIN; UPDATE writing SET number = number; {self._leaving}; COMMIT")

    def reopen(self) -> bool:
        """Connect again, and return whether the commit with the next number has happened.

        Raises `StoreAwayError`: the server is still away, STORE_FENCED, or STORE_WENT_BACK.
        """
        db, before = self._db, self.epoch
        db.reopen()
        db.simple("BEGIN")
        try:
            # After what is under way, and before any row of a node is locked: as `fence` does.
            [(number,)] = db.simple("UPDATE writing SET number = number RETURNING number")
            [(timeline,)] = db.simple("SELECT noted_timeline()")
            [(began,)] = db.simple(f"SELECT min(number) FROM histories WHERE timeline > {self.timeline}")
            rows = db.simple(
                f"UPDATE nodes SET epoch = epoch + 1, backend = pg_backend_pid() WHERE {self._me}"
                " RETURNING epoch, batch"
            )
            if not rows:
                raise lost(db, self.name)
            self.epoch, batch = int(str(rows[0][0])), int(str(rows[0][1]))
            there = min(int(str(each)) for each in (number, began) if each is not None)
            gone = max(self.applied - there, self.batch - batch, int(str(timeline)) < self.timeline)
            if gone > 0:
                db.simple(f"UPDATE nodes SET {losing(gone)} WHERE {self._me}; {self._leaving}; COMMIT")
                raise went_back(db, gone)
            db.simple(f"UPDATE shards SET epoch = {self.epoch} WHERE node = '{self.name}' AND epoch = {before}; COMMIT")
        except DaycareError:
            self.epoch = before
            db.close()  # with whatever it had begun
            raise
        self.timeline = int(str(timeline))
        happened = batch > self.batch
        self.batch = batch
        return happened

    def members(self, db: Any) -> list[dict[str, Any]]:
        """Return what people are shown of every node."""
        rows = db.execute(
            "SELECT n.node, n.epoch, n.state, n.version, n.address, n.key_print = ?, n.config_print = ?,"
            " CAST(extract(epoch FROM n.until - clock_timestamp()) * 1000 AS bigint),"
            " (SELECT count(*) FROM shards s WHERE s.node = n.node) FROM nodes n WHERE n.state <> 'left' ORDER BY 1",
            (self.identity.key_print, self.identity.config_print),
        ).fetchall()
        return [
            {
                "name": node,
                "epoch": epoch,
                "state": "late" if state == "alive" and left_ms < 0 else state,
                "version": version,
                "address": address,
                "shards": shards,
                "lease_left_ms": max(0, left_ms) if state == "alive" else 0,
                "same_key": bool(same_key),
                "same_settings": bool(same_config),
            }
            for node, epoch, state, version, address, same_key, same_config, left_ms, shards in rows
        ]

    @property
    def _me(self) -> str:
        return f"node = '{self.name}' AND epoch = {self.epoch} AND state = 'alive'"

    @property
    def _leaving(self) -> str:
        return (
            "WITH gone AS (UPDATE nodes SET until = clock_timestamp(), state = 'left', working = false"
            f" WHERE {self._me} RETURNING node)"
            " UPDATE shards SET node = NULL WHERE node IN (SELECT node FROM gone); NOTIFY daycare"
        )

    def _set(self, db: Any, shards: Iterable[int], node: str | None) -> None:
        if numbers := those(sorted(shards)):
            db.execute(
                "UPDATE shards SET node = ?, epoch = ? WHERE shard IN (SELECT value FROM carray(?))",
                (node, self.epoch, numbers),
            )

    def _renewed(self, began: float) -> None:
        self.sure_until = began + ACTS_SHARE * self.identity.lease_ms / 1000


def lost(db: PostgresConnection, name: str) -> StoreAwayError:
    """Return the refusal of a node that was declared dead."""
    return StoreAwayError(
        "STORE_FENCED",
        f"using the database {db.location.shown}: node {name} was away for longer than its lease, and others have"
        " taken over its work; nothing is written from here",
        hint="it joins again by itself",
    )


def losing(gone: int) -> str:
    """Return what is set in the row of a node that sees that so many commits are lost: its starts tell it for a day."""
    return f"gone = {GONE} + {gone}, gone_at = now()"


def went_back(db: PostgresConnection, gone: int) -> StoreAwayError:
    """Return the refusal of one that knows of commits that the server has lost."""
    return StoreAwayError(
        "STORE_WENT_BACK",
        f"using the database {db.location.shown}: {gone} {plural('commit', gone)} known here are not there any more, as"
        " on a standby that takes over and was behind; nothing is written until daycare has read again what is there",
        hint="it starts again by itself; a synchronous standby loses nothing: doc/operate/several-machines.md",
    )
