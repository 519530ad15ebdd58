"""What `daycare doctor` says of nodes that share a database."""

from types import SimpleNamespace
from typing import Any

from daycare.ops.doctor.server import server
from tests import postgres
from tests.nodes.test_nodes import connection, joined


def told(address: str) -> dict[str, str]:
    """Return what is wrong, by what it is about."""
    context: Any = SimpleNamespace(location=address)
    found = [each for each in server(context) if each.level != "ok" and each.about != "durability"]
    return {each.about: each.message for each in found}


def test_doctor_tells_of_nodes_that_are_late_or_differ_and_of_no_others() -> None:
    address = postgres.database()
    for name in ("a", "b", "c"):
        joined(address, name)
    db = connection(address)
    assert told(address) == {}
    db.simple("UPDATE engine SET version = version + 1")  # by a newer node, beside which these may work
    assert list(told(address)) == ["schema"]
    db.simple("UPDATE engine SET version = version - 1")
    db.simple("UPDATE nodes SET version = '9.0.0', key_print = 'other', config_print = 'other' WHERE node = 'b'")
    db.simple("UPDATE nodes SET until = now() - interval '1 s' WHERE node = 'c'")
    found = told(address)
    assert sorted(found) == ["keys of nodes", "node c", "settings of nodes", "versions of nodes"]
    assert "9.0.0" in found["versions of nodes"] and "late" in found["node c"]
