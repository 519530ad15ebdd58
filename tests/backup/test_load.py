"""A backup of a daemon at work: what it had acknowledged is in the restored one, which goes on with it."""

from collections import Counter
from itertools import count
from pathlib import Path

import trio

from daycare.base.clock import SystemClock
from daycare.features.backups import restoring
from daycare.features.backups.backup_store import publish
from daycare.features.backups.making import BackupProgress
from daycare.store.home import Home
from daycare.store.sqlite.database import check
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted
from tests.backup.homes import rows

_MESSAGES = 12  # before each backup
_PAUSE_S = 0.001  # a small backup takes some 10 ms
_DEADLINE_S = 60.0


async def test_every_message_that_was_acknowledged_before_is_answered_once_by_the_restored_one(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    before: list[set[str]] = []
    made: list[Path] = []
    meanwhile = 0
    async with (
        open_daemon(_new(tmp_path / "a"), location="daycare.db", clock=SystemClock(), inline=False) as house,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(_write, house, acknowledged)
        for number in range(3):
            enough = len(acknowledged) + _MESSAGES
            while len(acknowledged) < enough:
                await trio.sleep(0.001)
            before.append(set(acknowledged))
            report = await house.daemon.backups.backups.make(with_key=True, progress=BackupProgress())
            meanwhile += len(acknowledged) - len(before[-1])
            data = [piece async for piece in house.daemon.backups.backups.fetch(report.id)]
            publish(data, tmp_path / f"b{number}", "")
            made.append(tmp_path / f"b{number}")
        assert meanwhile, "messages went on while it was backed up"
        nursery.cancel_scope.cancel()
    for number, file in enumerate(made):
        home = Home(_new(tmp_path / f"r{number}"))
        restoring.restore(file, home, str, force=False, now_ms=SystemClock().now_ms())
        assert check(str(home.path / "daycare.db")) is None
        keys = [str(key) for (key,) in rows(home.path / "daycare.db", "SELECT key FROM inbox WHERE key LIKE 'm%'")]
        assert before[number] <= set(keys) and len(set(keys)) == len(keys)
        await _goes_on(home, keys)


async def _write(house: TestDaemon, acknowledged: list[str]) -> None:
    """Write without an end, no faster than is answered."""
    for number in count():
        key = f"m{number}"
        await house.say(f"message {number}", key=key)
        acknowledged.append(key)
        await trio.sleep(_PAUSE_S)


async def _goes_on(home: Home, keys: list[str]) -> None:
    """Let a daemon over a restored home answer what waits; each message has one answer, under its own key."""
    async with open_daemon(home.path, Scripted(), location="daycare.db", clock=SystemClock(), inline=False) as house:
        with trio.fail_after(_DEADLINE_S):
            while (await house.store.inbox.counts())["waiting"]:
                await trio.sleep(0.01)
        for key in keys:
            assert (await house.say("again", key=key)).duplicate, "it is known, and not taken twice"
    database = home.path / "daycare.db"
    states = rows(database, "SELECT state FROM inbox WHERE key LIKE 'm%'")
    assert set(states) == {(1,)} and len(states) == len(keys)
    ended = rows(database, "SELECT value FROM turns t JOIN history h USING (turn), json_each(t.seqs)")
    used = [seq for (seq,) in ended]
    assert max(Counter(used).values()) == 1, "no message was in two turns that ended"
    assert rows(database, "PRAGMA foreign_key_check") == []


def _new(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder
