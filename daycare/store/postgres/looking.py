"""What a report says of a database on a server, which a daemon may be working on."""

from contextlib import ExitStack, closing
from typing import NamedTuple, cast

import apsw

from daycare.store.postgres import schema
from daycare.store.postgres.connection import READ_MAX_S, PostgresConnection
from daycare.store.postgres.location import ServerLocation
from daycare.store.sqlite.database import migrations


class NodeFacts(NamedTuple):
    """One of those that share it; `key_print` and `config_print` are of its key and its settings."""

    name: str
    address: str
    state: str
    version: str
    key_print: str
    config_print: str
    shards: int


class ServerFacts(NamedTuple):
    """A server and the database on it.

    `schema` is the version of the schema, 0 for none; `known` is this daycare's, and `oldest` what a node has to know.
    `durable`: what was acknowledged outlives a power cut. `late` of the `standbys` may be behind. `owner` is the
    machine of a daycare that works on it. `nodes` are those that share it.
    """

    version: str
    bytes: int
    schema: int
    oldest: int
    known: int
    durable: bool
    standbys: int
    late: int
    owner: str
    nodes: tuple[NodeFacts, ...] = ()


def open_look(location: str) -> apsw.Connection | None:
    """Open a connection that reads, None where no daycare has made a schema yet. Raises what `look` does."""
    with ExitStack() as opened:
        db = opened.enter_context(closing(PostgresConnection(ServerLocation(location), schema.dialect(), READ_MAX_S)))
        schema.refuse(db)
        if not schema.is_there(db):
            return None
        opened.pop_all()
    return cast(apsw.Connection, db)


def look(location: str) -> ServerFacts:
    """Return what is there. Raises `BrokenError` or `StoreAwayError` for what cannot be asked."""
    with closing(PostgresConnection(ServerLocation(location), schema.dialect(), READ_MAX_S)) as db:
        schema.refuse(db)
        [(version, size, durable)] = db.simple(
            "SELECT current_setting('server_version'), pg_database_size(current_database()),"
            " current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'"
        )
        [(standbys, late)] = db.simple(
            "SELECT count(*), count(*) FILTER (WHERE coalesce(sync_state, 'async') = 'async') FROM pg_stat_replication"
        )
        number = oldest = "0"
        owner = ""
        nodes: list[NodeFacts] = []
        if schema.is_there(db):
            [(number, oldest)] = db.simple(
                "SELECT version, coalesce(to_jsonb(e) ->> 'oldest', version::text) FROM engine e"
            )
            owners = db.simple("SELECT address FROM nodes WHERE until > now()")
            owner = str(owners[0][0]) if owners else ""
            if db.simple("SELECT 1 WHERE to_regclass('daycare.shards') IS NOT NULL"):
                nodes = [
                    NodeFacts(
                        str(node), str(address), str(state), str(version), str(key), str(config), int(str(shards))
                    )
                    for node, address, state, version, key, config, shards in db.simple(
                        "SELECT n.node, n.address, CASE WHEN n.state = 'alive' AND n.until < now() THEN 'late' ELSE"
                        " n.state END, n.version, n.key_print, n.config_print, (SELECT count(*) FROM shards s"
                        " WHERE s.node = n.node) FROM nodes n WHERE n.node <> 'main' AND n.state <> 'left' ORDER BY 1"
                    )
                ]
    return ServerFacts(
        version=str(version),
        bytes=int(str(size)),
        schema=int(str(number)),
        oldest=int(str(oldest)),
        known=migrations()[-1][0],
        durable=durable == "t",
        standbys=int(str(standbys)),
        late=int(str(late)),
        owner=owner,
        nodes=tuple(nodes),
    )
