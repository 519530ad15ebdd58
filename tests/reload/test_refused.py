"""A file with a mistake, or half a file, changes nothing; it is told once, and what held before goes on."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daycare.base.errors import ConflictError, DaycareError
from daycare.ops.applying import Reloaded
from daycare.ops.watching import CONFIG_BUSY_S, CONFIG_GONE_S, CONFIG_LOOK_S, CONFIG_REST_S, CONFIG_STILL_S, Watched
from daycare.settings import Config
from daycare.testing.daemon import TestDaemon
from tests.reload.homes import BASE, open_home, refused, write

SEEN_S = CONFIG_LOOK_S + CONFIG_STILL_S + 0.1
QUIET = '[notify]\nquiet = "22:00-07:00"\n'


@asynccontextmanager
async def watched(tmp: Path, more: str = "") -> AsyncIterator[TestDaemon]:
    """A house whose file is watched, and was read once."""
    async with open_home(tmp, more) as house, trio.open_nursery() as nursery:
        nursery.start_soon(house.daemon.reloading.run)
        await trio.sleep(SEEN_S)
        yield house
        nursery.cancel_scope.cancel()


def quiet(house: TestDaemon) -> bool:
    return house.daemon.live.now.notify.quiet != ""


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ('[agents]\ndefualt = "x"\n', ":9: agents.defualt: unknown key; did you mean `default`?"),
        ("[daemon]\nidle_s = -1\n", ":9: daemon.idle_s: expected"),
        ("[models.user\n", ":8: "),
        ('[notify]\nquiet = "22:00-99:00"\n', ":9: notify.quiet: expected two times of day"),
        ('[budgets]\nperson = ["lots"]\n', ":9: budgets.person: "),
        ("[plugins.telegram]\nlong_anwers = 3\n", ":9: plugins.telegram.long_anwers: unknown key"),
        ('[agent]\nname = "sk-abcdefghijklmnop"\n', ":9: agent.name: secrets do not belong in this file"),
    ],
)
async def test_a_mistake_is_told_with_its_line_and_nothing_changes(
    tmp_path: Path, autojump_clock: object, more: str, told: str
) -> None:
    async with open_home(tmp_path) as house:
        error = await refused(house, tmp_path, more + '[cron.x]\ncron = "@daily"\nprompt = "x"\n')
        assert f"{tmp_path}/config.toml{told}" in error.message and "sk-" not in error.message
        [event] = house.events("config.refused")
        assert event["reason"] == error.message
        assert (await house.daemon.status())["config"]["refused"] == error.message
        health = {each.name: each for each in await house.daemon.health.report()}["config"]
        assert not health.ok and health.text == error.message
        assert await house.talk("hello") == "echo: hello"


async def test_the_owner_hears_of_a_mistake_once_and_not_where_they_asked(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with watched(tmp_path) as house:
        write(tmp_path, "[agents]\nx = 1\n")
        await trio.sleep(SEEN_S)
        os.utime(tmp_path / "config.toml", (1, 1))
        await trio.sleep(SEEN_S)
        assert len(house.events("config.refused")) == 1
        [notice] = house.events("notice")
        assert "config.toml was changed and cannot be taken" in str(notice["text"]) and ":9: agents.x" in str(notice)
        write(tmp_path, "[agents]\ny = 1\n")
        with pytest.raises(DaycareError, match=r"config\.toml:9: agents\.y"):
            await house.daemon.reloading.reload()
        assert len(house.events("notice")) == 1 and len(house.events("config.refused")) == 2
        write(tmp_path)
        assert await house.daemon.reloading.reload() == Reloaded()
        assert (await house.daemon.status())["config"]["refused"] == ""
        assert len(house.events("config.reloaded")) == 1  # the mistake is gone


async def test_a_mistake_in_a_plugin_leaves_its_connector_alone(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        before = house.daemon.connectors["telegram"]
        await refused(house, tmp_path, "[plugins.telegram]\nmode = 3\n" + QUIET)
        assert house.daemon.connectors["telegram"] is before and not quiet(house)


# -- files -------------------------------------------------------------------------------------------------------------


async def test_a_file_put_in_its_place_is_taken(tmp_path: Path, autojump_clock: object) -> None:
    async with watched(tmp_path) as house:
        write(tmp_path, QUIET)
        await trio.sleep(SEEN_S)
        assert quiet(house)


async def test_a_file_that_is_still_written_is_not_taken(tmp_path: Path, autojump_clock: object) -> None:
    async with watched(tmp_path) as house:
        with (tmp_path / "config.toml").open("w") as file:
            for line in (BASE + QUIET + "[agents]\n" + 'default = "aide"\n').splitlines(keepends=True):
                file.write(line)
                file.flush()
                await trio.sleep(CONFIG_STILL_S * 0.8)
                assert not house.events("config.refused") and not house.events("config.reloaded")
        await trio.sleep(SEEN_S)
        assert quiet(house) and len(house.events("config.reloaded")) == 1


async def test_a_file_that_is_cut_and_written_again_later_is_taken_once(tmp_path: Path, autojump_clock: object) -> None:
    async with watched(tmp_path, QUIET) as house:
        (tmp_path / "config.toml").write_text("")
        await trio.sleep(CONFIG_LOOK_S + CONFIG_GONE_S * 0.5)
        assert quiet(house) and not house.events("config.reloaded")
        write(tmp_path)
        await trio.sleep(SEEN_S)
        assert not quiet(house) and len(house.events("config.reloaded")) == 1


async def test_a_file_that_is_gone_stays_in_force_and_comes_back(tmp_path: Path, autojump_clock: object) -> None:
    async with watched(tmp_path, QUIET) as house:
        (tmp_path / "config.toml").unlink()
        await trio.sleep(CONFIG_LOOK_S + CONFIG_GONE_S + 1)
        assert quiet(house) and "is gone" in house.daemon.reloading.refused
        write(tmp_path, QUIET)
        await trio.sleep(SEEN_S)
        assert quiet(house) and not house.daemon.reloading.refused


async def test_a_home_without_a_file_has_none_to_miss(tmp_path: Path, autojump_clock: object) -> None:
    async with open_home(tmp_path) as house:
        (tmp_path / "config.toml").unlink()
        house.daemon.reloading._had_file = False
        house.daemon.live.take(Config())
        assert await house.daemon.reloading.read() == Reloaded()


@pytest.mark.parametrize("kind", ["pipe", "folder", "large", "binary", "loop"])
async def test_what_is_no_file_of_ours_is_refused_at_once(tmp_path: Path, autojump_clock: object, kind: str) -> None:
    async with watched(tmp_path, QUIET) as house:
        file = tmp_path / "config.toml"
        file.unlink()
        match kind:
            case "pipe":
                os.mkfifo(file)
            case "folder":
                file.mkdir()
            case "large":
                file.write_bytes(b"#" * 1024 * 1024)
            case "binary":
                file.write_bytes(b"\x00\xff" * 100)
            case "loop":
                file.symlink_to(file)
        with trio.fail_after(30):
            with pytest.raises(DaycareError, match=r"config\.toml:1: "):
                await house.daemon.reloading.reload()
        assert quiet(house)
        assert await house.talk("hello") == "echo: hello"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_a_file_that_nobody_may_read_is_refused(tmp_path: Path, autojump_clock: object) -> None:
    async with watched(tmp_path, QUIET) as house:
        (tmp_path / "config.toml").chmod(0)
        await trio.sleep(SEEN_S)
        assert "Permission denied" in house.daemon.reloading.refused and quiet(house)


async def test_a_hundred_edits_in_a_second_lead_to_one_reading(tmp_path: Path, autojump_clock: object) -> None:
    async with watched(tmp_path) as house:
        for number in range(100):
            write(tmp_path, f"[daemon]\nidle_s = {number + 1}\n")
            await trio.sleep(0.01)
        await trio.sleep(SEEN_S)
        assert len(house.events("config.reloaded")) == 1 and house.daemon.live.now.daemon.idle_s == 100


async def test_an_idle_file_costs_a_look_every_two_seconds_and_then_every_fifteen(
    tmp_path: Path, autojump_clock: object
) -> None:
    write(tmp_path)
    file = Watched(tmp_path / "config.toml")
    assert file.look() == CONFIG_STILL_S
    file.take()
    assert file.look() is None and file.wait_s() == CONFIG_LOOK_S
    await trio.sleep(CONFIG_BUSY_S + 1)
    assert file.wait_s() == CONFIG_REST_S
    file.take()
    assert file.wait_s() == CONFIG_LOOK_S


# -- who asks ----------------------------------------------------------------------------------------------------------


async def test_who_asks_need_not_wait_and_many_get_one_reading(tmp_path: Path, autojump_clock: object) -> None:
    async with watched(tmp_path) as house:
        write(tmp_path, QUIET)
        began = trio.current_time()
        found: list[Reloaded] = []

        async def ask() -> None:
            found.append(await house.daemon.reloading.reload())

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask)
        assert trio.current_time() == began and quiet(house)
        assert {each.changed for each in found} == {("notify.quiet",)}
        assert len(house.events("config.reloaded")) == 1


async def test_a_daemon_that_stops_takes_nothing_anew(tmp_path: Path, autojump_clock: object) -> None:
    async with watched(tmp_path) as house:
        write(tmp_path, QUIET)
        house.daemon.stop.ask(False, "test")
        with pytest.raises(ConflictError, match="is stopping"):
            await house.daemon.reloading.reload()
    assert not quiet(house)
    with pytest.raises(ConflictError, match="does not work"):
        await house.daemon.reloading.reload()


async def test_the_end_of_a_daemon_within_a_restart_of_a_plugin_leaves_nothing(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with watched(tmp_path) as house:
        write(tmp_path, "[plugins.telegram]\nstatus_line = false\n")
        house.daemon.reloading.ask()
        await trio.sleep(0)
        await house.daemon.extensions.stop()
        with trio.fail_after(30):
            await trio.sleep(10)
