"""A store that is not to be trusted, as everybody sees it: status, health, systemd, chat, and the operator at once."""

import re
from pathlib import Path

import pytest
import trio

from daycare.base.errors import DaycareError, StoreAwayError
from daycare.features import open_store
from daycare.store.sqlite import guard, mark
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from tests.store.samples import HandClock
from tests.store.test_trust import WITHIN_S, damage

DOC = Path(__file__).parents[2] / "doc" / "operate" / "upkeep.md"


def removed(house: TestDaemon, file: Path) -> None:
    file.unlink()


def replaced(house: TestDaemon, file: Path) -> None:
    (file.parent / "other.db").replace(file)


def log_removed(house: TestDaemon, file: Path) -> None:
    Path(f"{file}-wal").unlink()


def damaged(house: TestDaemon, file: Path) -> None:
    with pytest.raises(StoreAwayError):  # as whoever needs that page finds it
        house.store._reader.execute("SELECT * FROM approval_grants").fetchall()


FAULTS = {
    "removed": (removed, "STORE_GONE"),
    "replaced": (replaced, "STORE_GONE"),
    "log removed": (log_removed, "STORE_GONE"),
    "damaged": (damaged, "STORE_CORRUPT"),
}


async def red(house: TestDaemon) -> set[str]:
    return {each.name for each in await house.daemon.health.look(whole=True) if not each.ok}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_of_the_file_is_seen_everywhere_within_seconds_and_told_once(
    tmp_path: Path, autojump_clock: trio.abc.Clock, fault: str
) -> None:
    strike, code = FAULTS[fault]
    file = tmp_path / "daycare.db"
    async with open_store(str(tmp_path / "other.db"), HandClock(), inline=True):
        pass
    async with open_daemon(tmp_path, location="daycare.db") as house:
        await house.talk("hello")
    if strike is damaged:
        damage(file, "approval_grants")
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, location="daycare.db", plugins=[pigeon.plugin()]) as house:
        await house.store.people.link("pigeon:7", "ann")
        await house.talk("hello")
        assert "store" not in await red(house)
        strike(house, file)
        await trio.sleep(WITHIN_S)
        assert "store" in await red(house)
        status = await house.daemon.status()
        assert status["store"]["trouble"]
        assert house.daemon.standing.line().startswith("degraded: the store refuses: ")
        with pytest.raises(DaycareError) as refused:
            await house.say("are you there?")
        assert refused.value.code == code
        await trio.sleep(600)
        told = [each for each in pigeon.arrived if "I cannot take messages" in each.text]
        assert [each.target for each in told] == ["7"], "once"
        [notice] = [each for each in house.events("notice") if "I cannot take messages" in str(each["text"])]
        assert "daycare stop" in str(notice["text"])
        assert [each["event"] for each in house.events() if each["event"] in ("lane.broke", "part.crashed")] == []
        if code == "STORE_GONE":
            [rescued] = guard.rescues(str(file))
            assert str(rescued) in told[0].text
            assert str(rescued) in str((await house.daemon.status())["store"]["trouble"])


async def test_a_messenger_that_is_away_hears_of_it_when_it_is_back(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, location="daycare.db", plugins=[pigeon.plugin()]) as house:
        await house.store.people.link("pigeon:7", "ann")
        await trio.sleep(1)
        pigeon.enqueue(StoreAwayError("AWAY", "no"), ValueError("a defect"))
        Path(tmp_path / "daycare.db").unlink()
        await trio.sleep(300)
        assert len(pigeon.arrived) == 1 and len(pigeon.flights) == 3


async def test_commits_that_vanished_are_told_once_and_seen_for_a_day(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    file = tmp_path / "daycare.db"
    async with open_daemon(tmp_path, location="daycare.db") as house:
        await house.talk("hello")
    before = file.read_bytes()
    async with open_daemon(tmp_path, location="daycare.db") as house:
        await house.talk("one more")
        await house.talk("and one more")
    file.write_bytes(before)
    assert len(mark.read(str(file)).newest) == 4
    wall = VirtualClock()
    for told in (1, 0):
        async with open_daemon(tmp_path, location="daycare.db", clock=wall) as house:
            await trio.sleep(WITHIN_S)
            assert "commits" in await red(house)
            assert "missing of what was committed" in house.daemon.standing.line()
            assert "message" in str((await house.daemon.status())["store"]["lost"])
            notices = [str(each["text"]) for each in house.events("notice")]
            assert len([text for text in notices if "something was gone" in text]) == told
            assert (await house.talk("hello")).startswith("echo"), "it goes on with what there is"
            if not told:
                wall.sleep(86_400)
                assert "commits" not in await red(house)


def test_the_table_of_faults_names_each_of_them() -> None:
    """It says what this file holds."""
    text = DOC.read_text()
    [_, part] = text.split("## When the store is not to be trusted")
    part = part.partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|(.+)\|$", part, re.MULTILINE)[2:]
    codes = {code for _, code in FAULTS.values()} | {"DISK_FULL"}
    assert codes <= set(re.findall(r"[A-Z]+_[A-Z]+", part))
    assert len(rows) >= 5
    assert all(any(word in what for what, _ in rows) for fault in FAULTS for word in fault.split())
    assert all(len(cells.split("|")) == 5 for _, cells in rows), "status, health, doctor, chat, systemd"
