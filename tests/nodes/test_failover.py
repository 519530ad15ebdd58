"""A server whose place a standby takes: what nodes knew is there, or they begin again with what is."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from daycare.base.errors import StoreAwayError
from daycare.store.postgres.members import NodeMembership
from tests import postgres
from tests.nodes.server import DATABASE, Server
from tests.nodes.test_nodes import begun, connection, joined
from tests.nodes.test_stores import DEADLINE_S, agent_of, heard, message, someone, two


@pytest.fixture
def server() -> Iterator[Server]:
    postgres.database()  # or it is said why there is none
    made = Server()
    yield made
    made.stop()
    shutil.rmtree(made.folder, ignore_errors=True)


def committed(member: NodeMembership, *others: NodeMembership) -> None:
    """Commit, and let others hear of it."""
    member._db.simple("BEGIN")
    assert begun(member)
    member._db.simple("COMMIT")
    member.batch += 1
    for each in (member, *others):
        each.applied = member.number


def went_back(member: NodeMembership) -> str:
    """Return what a node says that connects again, and finds less than it knew."""
    with pytest.raises(StoreAwayError) as refused:
        member.reopen()
    assert refused.value.code == "STORE_WENT_BACK"
    return refused.value.message.partition(": ")[2].partition(" known here")[0]


def test_a_node_sees_that_commits_it_heard_of_are_gone_though_others_have_used_their_numbers_again(
    server: Server,
) -> None:
    both = f"postgresql://postgres@/{DATABASE}?host={server.folder / '1'},{server.folder / '2'}"
    speaks, listens, knows_less = (joined(both, name) for name in "abc")
    committed(speaks, listens, knows_less)
    standby = server.fall_behind()
    committed(speaks, listens)
    committed(speaks, listens)
    server.fail_over(standby)
    new = joined(both, "d")
    for _ in range(5):
        committed(new)
    assert new.applied > listens.applied, "by numbers alone nothing would be missing"
    assert went_back(listens) == "2 commits"
    assert went_back(speaks) == "2 commits"
    knows_less.reopen()
    committed(knows_less)
    again = joined(both, "b")
    assert again.gone == 2, "who reads again what is there is told what was lost"
    committed(again)
    again._db._drop()
    again.reopen()


def test_a_standby_that_has_everything_takes_over_without_a_word(server: Server) -> None:
    both = f"postgresql://postgres@/{DATABASE}?host={server.folder / '1'},{server.folder / '2'}"
    speaks, listens = joined(both, "a"), joined(both, "b")
    standby = server.stand_by()
    committed(speaks, listens)
    server.fail_over(standby)
    listens.reopen()
    committed(listens)
    speaks.reopen()
    committed(speaks, listens)


async def test_a_node_whose_server_has_lost_commits_writes_nothing_and_begins_again(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        asked = trio.Event()
        a.share.ended = lambda why: asked.set()
        user = someone(b)
        await agent_of(b, user)
        await heard(a, b)
        side = connection(a.location)
        side.simple("UPDATE writing SET number = number - 1")  # what others had told of one is gone
        side.simple(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database()"
        )
        with pytest.raises(StoreAwayError) as refused:
            await a.inbox.post(message(user, "k"))
        assert refused.value.code == "STORE_WENT_BACK"
        with trio.fail_after(DEADLINE_S):
            await asked.wait()
