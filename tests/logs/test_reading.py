"""The end of the log: by level and words, from a cursor on, over a rotation, and never too much of it."""

import json
from pathlib import Path

import pytest
import trio

from daycare.base.secrecy import forget_hidden, hide
from daycare.features.logs import reading
from daycare.features.logs.faces import LogRoutes
from daycare.features.logs.operations import ReadLog


def line(event: str, level: str = "info", **more: str) -> str:
    return json.dumps({"at": "2026-01-01T00:00:00.000+00:00", "level": level, "event": event, **more}) + "\n"


def events(file: Path, **wish: object) -> list[str]:
    return [each.event for each in reading.read_log(file, ReadLog(**wish)).lines]  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "daycare.log"
    made.write_text(line("a", "debug") + line("b", path="/ann/direct") + line("c", "error") + "no JSON\n")
    return made


def test_lines_are_chosen_by_level_words_and_number(file: Path) -> None:
    assert events(file) == ["a", "b", "c", "no JSON"]
    assert events(file, level="warning") == ["c"]
    assert events(file, text="ANN/direct") == ["b"]
    found = reading.read_log(file, ReadLog(lines=1))
    assert [each.event for each in found.lines] == ["no JSON"] and found.left_out


def test_a_cursor_goes_on_where_somebody_has_stopped_and_a_rotation_begins_anew(file: Path) -> None:
    cursor = reading.read_log(file, ReadLog()).cursor
    assert events(file, after=cursor) == []
    with file.open("a") as opened:
        opened.write(line("d") + '{"event": "half')
    assert events(file, after=cursor) == ["d"], "a line that is still written is not one"
    cursor = reading.read_log(file, ReadLog(after=cursor)).cursor
    with file.open("a") as opened:
        opened.write(' a line"}\n')
    assert events(file, after=cursor) == ["half a line"]
    file.rename(file.with_suffix(".1"))
    file.write_text(line("new"))
    assert events(file, after=cursor) == ["new"]
    file.unlink()
    assert events(file, after=cursor) == []


def test_of_a_long_log_only_the_end_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LOG_READ_MAX_BYTES", 300)
    file.write_text("".join(line(f"event {number}") for number in range(100)))
    found = reading.read_log(file, ReadLog())
    assert found.left_out and 0 < len(found.lines) < 5
    assert found.lines[-1].event == "event 99" and found.lines[0].event.startswith("event 9")


def test_a_secret_that_is_known_since_is_hidden(file: Path) -> None:
    file.write_text(line("x", told="hunter2hunter2") + line("y", key="sk-kitchen-0123456789"))
    hide("hunter2hunter2")
    try:
        assert [each.more for each in reading.read_log(file, ReadLog()).lines] == [
            {"told": "[secret]"},
            {"key": "[secret]"},
        ]
    finally:
        forget_hidden()


async def test_who_waits_is_answered_once_something_that_fits_was_written(file: Path) -> None:
    routes = LogRoutes(file, trio.Event())
    cursor = reading.log_end(file)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                with file.open("a") as opened:
                    opened.write(line("quiet", "debug") + line("loud", "error"))

            nursery.start_soon(write)
            found = await routes.read(ReadLog(after=cursor, level="error", wait_s=9))
    assert [each.event for each in found.lines] == ["loud"]
    assert (await routes.read(ReadLog(after=found.cursor, wait_s=0.01))).lines == ()


def test_words_find_nothing_that_is_hidden(file: Path) -> None:
    with file.open("a") as log:
        log.write(line("the key is zq7-guess-me-if-you-can-4711"))
    assert events(file, text="zq7-guess") == ["the key is zq7-guess-me-if-you-can-4711"]
    hide("zq7-guess-me-if-you-can-4711")
    try:
        assert events(file, text="zq7-guess") == []
        assert len(events(file, text="the key is")) == 1
    finally:
        forget_hidden()
