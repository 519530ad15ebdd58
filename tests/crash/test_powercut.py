"""A short slice of the power-cut campaign, and proofs that the campaign would notice."""

import random
from pathlib import Path

import apsw
import pytest

from daycare.features import open_store
from daycare.store.sqlite import database
from daycare.testing.powercut import KINDS, compare, draw_cuts, inspect, run
from daycare.testing.powercut_disk import Disk, Op
from daycare.testing.powercut_workload import Recording, record
from tests.chance import SEED


def test_no_acknowledged_row_is_lost_doubled_torn_or_reordered_by_a_power_cut() -> None:
    print(f"SEED={SEED}")
    assert run(60, SEED, report=print) == {"images": 60, **dict.fromkeys(KINDS, 0), "seed": SEED}


@pytest.mark.parametrize("weaker", ["NORMAL", "OFF"])
def test_a_product_that_opens_its_store_with_less_is_found(monkeypatch: pytest.MonkeyPatch, weaker: str) -> None:
    opened = database.open_writer

    def open_weaker(location: str, vfs: str | None = None) -> apsw.Connection:
        db = opened(location, vfs)
        db.pragma("synchronous", weaker)
        return db

    monkeypatch.setattr("daycare.store.sqlite.engine.open_writer", open_weaker)
    counts = run(60, 7)
    assert sum(counts[kind] for kind in KINDS) > 5, "lost, or torn in the file itself"


def test_the_campaign_finds_rows_that_are_lost_when_commits_are_not_synced() -> None:
    counts = run(60, 7, synchronous="NORMAL")
    assert counts["lost"] > 5
    assert counts["torn"] == 0, "NORMAL loses the last commits, but whole"


async def test_the_campaign_finds_torn_databases_on_a_disk_that_lies_about_syncs(tmp_path: Path) -> None:
    recording = await record(tmp_path, 3)
    honest = [op for op in recording.ops if op.kind != "sync" or op.name.endswith("-journal")]
    found: set[str] = set()
    for number, cut in enumerate(draw_cuts(Recording(honest, recording.ledger), 30, random.Random(3))):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in cut.files.items():
            (folder / name).write_bytes(data)
        found |= {kind for kind, _ in await inspect(folder / "daycare.db", recording.ledger, cut.at, random.Random(3))}
    assert "torn" in found


DAMAGES = [
    ("DELETE FROM inbox WHERE seq = (SELECT max(seq) FROM inbox WHERE sender LIKE 'telegram%')", "lost"),
    ("DELETE FROM turns WHERE turn = 2", "lost"),
    ("UPDATE outbox SET state = 0 WHERE seq = 1", "lost"),
    ("DELETE FROM outbox WHERE seq = 2", "torn"),
    ("UPDATE inbox SET state = 0 WHERE seq = (SELECT min(seq) FROM inbox)", "torn"),
    ("DELETE FROM history WHERE turn = 2", "torn"),
    ("INSERT INTO outbox (seq, agent_id, path, turn, connector, user, origin, trace, state, created_at, sent_at, text)"
     " SELECT max(seq) OVER () + 1, agent_id, path, turn, connector, user, origin, trace, state, created_at, sent_at,"
     " text FROM outbox LIMIT 1", "doubled"),
    ("DROP INDEX inbox_once; INSERT INTO inbox (agent_id, key, lane, kind, path, user, origin, sender, trace,"
     " created_at) SELECT agent_id, key, lane, kind, path, user, origin, sender, trace, 0 FROM inbox LIMIT 1",
     "doubled"),
    ("UPDATE inbox SET seq = 9999 WHERE seq = (SELECT min(seq) FROM inbox WHERE sender LIKE 'telegram%')",
     "reordered"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "kind"), DAMAGES)
async def test_the_comparison_notices_each_kind_of_damage(tmp_path: Path, damage: str, kind: str) -> None:
    recording = await record(tmp_path, 5)
    at = len(recording.ops)
    db = apsw.Connection(str(tmp_path / "daycare.db"))
    assert list(compare(db, recording.ledger, at)) == []
    db.execute(damage).fetchall()
    assert kind in {found for found, _ in compare(db, recording.ledger, at)}
    db.close()


def test_what_was_synced_survives_and_what_was_not_may_be_torn_at_sectors() -> None:
    disk = Disk()
    disk.play(
        [
            Op("create", 1, "a-wal"),
            Op("write", 1, "a-wal", 0, b"s" * 2048),
            Op("sync", 1, "a-wal"),
            Op("sync folder", 0, ""),
            Op("write", 1, "a-wal", 0, b"n" * 2048),
            Op("create", 2, "a-shm"),
            Op("delete", 1, "a-wal"),
            Op("create", 3, "a-wal"),
            Op("write", 3, "a-wal", 0, b"3" * 512),
        ]
    )
    rng = random.Random(1)
    images = [disk.cut(rng) for _ in range(500)]
    assert not any("a-shm" in image for image in images)
    first = {image["a-wal"] for image in images if len(image.get("a-wal", b"")) == 2048}
    sectors = {data[start : start + 512] for data in first for start in range(0, 2048, 512)}
    assert sectors == {b"s" * 512, b"n" * 512}
    assert len(first) == 16, "every mixture of old and new sectors occurs"
    assert {image.get("a-wal") for image in images} - first == {None, b"", bytes(512), b"3" * 512}, "another file"


async def test_a_store_goes_on_after_a_power_cut(tmp_path: Path) -> None:
    """Recovered stores are used, not only read: the next turn of each agent ends as if nothing had happened."""
    recording = await record(tmp_path, 11)
    for number, cut in enumerate(draw_cuts(recording, 8, random.Random(11))):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in cut.files.items():
            (folder / name).write_bytes(data)
        async with open_store(str(folder / "daycare.db")) as store:
            for agent in await store.agents.find():
                turn = await store.turns.open_turn(agent.id)
                if turn is not None:
                    resumed, rows, _ = await store.turns.resume(turn.turn)
                    assert resumed.attempt == turn.attempt, "an interrupted try costs nothing"
                    assert {row.seq for row in rows} == set(turn.seqs), "its messages wait"
                    await store.turns.park(agent, resumed, code="X", reason="y")
            waiting = await store.inbox.counts()
            assert waiting == {"waiting": sum(store._writer.memory.waiting.values())}
