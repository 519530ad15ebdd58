"""The look at a database on a server: whether it answers, may be used, and keeps what it has acknowledged."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from daycare.base.errors import DaycareError
from daycare.base.sizes import size
from daycare.base.store_location import shown
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding, Level

if TYPE_CHECKING:
    from daycare.store.postgres.looking import NodeFacts


def server(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The server, the schema on it, and its standbys."""
    try:
        from daycare.store.postgres.looking import look

        facts = look(context.location)
    except ImportError:
        yield DoctorFinding(
            "fail", "database", "what speaks to PostgreSQL is missing", "pip install 'daycare[postgres]'"
        )
        return
    except DaycareError as error:
        yield DoctorFinding("fail", "database", error.message, error.hint)
        return
    told = f"{shown(context.location)}, PostgreSQL {facts.version}, {size(facts.bytes)}"
    if not facts.schema:
        yield DoctorFinding(
            "warn", "database", f"{told}: it is empty", "daycare run (the first start makes the schema)"
        )
        return
    yield DoctorFinding("ok", "database", told + (f", in use on {facts.owner}" if facts.owner else ""))
    if facts.schema > facts.known:
        what = f"of version {facts.schema}, newer than this daycare, which knows {facts.known}"
        level: Level = "warn" if facts.nodes and facts.oldest <= facts.known else "fail"
        yield DoctorFinding(level, "schema", what, "install the newer daycare again")
    elif facts.schema < facts.known:
        yield DoctorFinding("ok", "schema", f"of version {facts.schema}; the next start makes it {facts.known}")
    else:
        yield DoctorFinding("ok", "schema", f"of version {facts.schema}")
    yield from _nodes(facts.nodes)
    if not facts.durable:
        what = "the server acknowledges what a power cut may undo (fsync or synchronous_commit is off)"
        yield DoctorFinding("fail", "durability", what, "ALTER SYSTEM SET synchronous_commit = on; fsync = on")
    if facts.late:
        what = (
            f"{facts.late} of {facts.standbys} standbys may be behind when they take over: what they lack is lost then"
        )
        yield DoctorFinding("warn", "standbys", what, "synchronous_standby_names in the server's settings")


def _nodes(nodes: "Sequence[NodeFacts]") -> Iterator[DoctorFinding]:
    """Where several nodes share it: what each holds, and whether they have one key and the same settings."""
    for node in nodes:
        told = f"{node.address}: {node.state}, {node.shards} shards"
        if node.state == "alive":
            yield DoctorFinding("ok", f"node {node.name}", told)
        else:
            hint = "start it again there, or leave it: others do its work"
            yield DoctorFinding("warn", f"node {node.name}", told, hint)
    alive = [node for node in nodes if node.state == "alive"]
    if len(versions := {node.version for node in alive}) > 1:
        what = f"an upgrade is half done: the nodes are {' and '.join(sorted(versions))}"
        yield DoctorFinding("warn", "versions of nodes", what, "upgrade the others, one after another")
    if len({node.key_print for node in alive}) > 1:
        hint = "copy daycare.key of one home to the others"
        yield DoctorFinding("fail", "keys of nodes", "the nodes have different vault keys", hint)
    if len({node.config_print for node in alive}) > 1:
        what = "the nodes have different settings: what counts depends on the node that works"
        yield DoctorFinding("warn", "settings of nodes", what, "make config.toml the same but for [node] and [api]")
