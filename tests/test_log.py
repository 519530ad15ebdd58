"""The log: one line an event, no conversation, no secret, no control character, and only its owner reads it."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import trio
import trio.testing
from msgspec.structs import replace

from daycare.base import events
from daycare.base.errors import UnavailableError
from daycare.base.events import AnyEvent, Event
from daycare.base.secrecy import forget_hidden
from daycare.observe.bus import Bus
from daycare.observe.log import LOG_FILES_KEPT, configure, follow, logger, write
from daycare.observe.redact import hide, looks_secret, names_secret, without_secrets

BOT = "123456789:" + "AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"
KEY = "sk-proj-" + "abcdefghijklmnop"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "daycare.log"
    configure("info")
    forget_hidden()


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def example(kind: type[Event]) -> Event:
    """An event with something in each field."""
    some = {int: 3, str: "words", bool: True, tuple[int, ...]: (3,)}
    values: dict[str, Any] = {field.name: some.get(field.type, 1.5) for field in msgspec.structs.fields(kind)}
    return kind(**values)


# -- events ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", get_args(AnyEvent), ids=lambda kind: kind.__name__)
def test_each_event_is_one_line_except_deltas(file: Path, kind: type[Event]) -> None:
    configure("debug", file)
    write(example(kind))
    if kind is events.TurnDelta:
        assert lines(file) == []
        return
    [line] = lines(file)
    assert line["event"] == kind.__struct_config__.tag
    assert (line["path"], line["agent"], line["trace"], line["user"]) == ("words",) * 4
    assert line["at"] == "1970-01-01T00:00:00.003+00:00"
    own = {name for name in kind.__struct_fields__ if name not in ("at_ms", "agent_id", "reply")}
    assert own <= line.keys()


def test_reply_is_counted_and_not_told(file: Path) -> None:
    configure("debug", file)
    write(events.TurnFinished(at_ms=0, path="/ann/direct", turn=7, reply="my darling", seqs=(1,)))
    assert "darling" not in file.read_text()
    assert lines(file)[0]["reply_chars"] == 10


def test_a_line_has_the_first_of_many_numbers_and_how_many_more_there_are(file: Path) -> None:
    configure("debug", file)
    recalled = replace(example(events.MemoryRecalled), numbers=tuple(range(40)), scores=(0.5,) * 5)
    write(recalled)
    [line] = lines(file)
    assert (line["numbers"], line["numbers_more"]) == ([0, 1, 2, 3, 4], 35)
    assert line["scores"] == [0.5] * 5 and "scores_more" not in line
    assert len(file.read_bytes()) < 600


def test_a_line_has_all_traces_of_a_turn_that_answers_many_messages(file: Path) -> None:
    configure("debug", file)
    [kind] = [kind for kind in get_args(AnyEvent) if "traces" in kind.__struct_fields__]
    traces = tuple(f"trace{number}" for number in range(16))
    write(replace(example(kind), traces=traces))
    [line] = lines(file)
    assert line["traces"] == list(traces), "whoever looks for a message finds its turn"


def test_level_decides_which_events_are_told(file: Path) -> None:
    configure("warning", file)
    for kind in get_args(AnyEvent):
        write(example(kind))
    write(events.DiskTrouble(at_ms=0, reason="disk full"))
    assert [(line["event"], line["level"]) for line in lines(file)] == [
        ("agent.parked", "warning"),
        ("lane.broke", "error"),
        ("part.crashed", "error"),
        ("turn.failed", "warning"),
        ("model.failed", "warning"),
        ("context.compaction_failed", "warning"),
        ("row.set_aside", "warning"),
        ("memory.embedder", "warning"),
        ("memory.away", "warning"),
        ("identity.held", "warning"),
        ("dead.lettered", "warning"),
        ("reply.failed", "warning"),
        ("cron.missed", "warning"),
        ("cron.failed", "warning"),
        ("cron.broken", "warning"),
        ("config.refused", "warning"),
        ("plugin.failed", "warning"),
        ("store.trouble", "error"),
    ]


async def test_follow_writes_what_was_and_what_comes_until_the_end(file: Path) -> None:
    configure("info", file)
    bus = Bus(start=1_000, size=4)
    for n in range(6):
        bus.publish(events.Notice(at_ms=n, text=str(n)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, bus)
        await trio.testing.wait_all_tasks_blocked()
        bus.publish(events.Notice(at_ms=6, text="6"))
        bus.close()
    assert [line.get("missed", line.get("text")) for line in lines(file)] == [2, "2", "3", "4", "5", "6"]
    assert lines(file)[0]["event"] == "log.gap"


# -- secrets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"key {KEY} refused",
        f"GET https://api.telegram.org/bot{BOT}/getMe",
        f"{{'Authorization': 'Bearer {KEY}'}}",
        "Authorization: Basic aHVudGVyMjI6aHVudGVyMjI=",
        "authorization=aHVudGVyMjI6aHVudGVyMjI=",
        "(b'authorization', b'aHVudGVyMjI6aHVudGVyMjI=')",
        "bearer aHVudGVyMjI6aHVudGVyMjI=",
        "http://ann:aHVudGVyMjI6aHVudGVyMjI=@example.org/",
        "xoxb-" + "123456789012-abcdefghijkl",
        "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    ],
)
def test_what_looks_like_a_secret_is_not_told(file: Path, text: str) -> None:
    configure("info", file)
    logger().info("tried", reason=text, deep={"list": [text, (text,)]})
    logging.getLogger("some.library").warning("tried %s", text)
    told = file.read_text()
    assert told.count("[secret]") == 4
    for secret in (KEY, BOT, "aHVudGVy", "abcdefghijkl"):
        assert secret not in told


@pytest.mark.parametrize(
    "text",
    [
        "/ann/telegram/sub/0",
        "ask-everybody-about-it",
        "a task-force of cookies",
        "telegram:123456789",
        "http://127.0.0.1:11434/v1",
        "at 12:30:45 the basic authorization failed",
        "4f2a9c0b1d3e5f67",
        "tz4a98xxat96iws9zmbrgj3a",
    ],
)
def test_what_is_no_secret_is_told(text: str) -> None:
    assert without_secrets(text) == text
    assert not looks_secret(text)


def test_hidden_secret_is_not_told_however_it_appears(file: Path) -> None:
    configure("info", file)
    hide('pass"wört')
    hide('longer pass"wört')
    hide("abc")
    log = logger()
    log.info('event pass"wört', x='longer pass"wört', y=['pass"wört'], abc="abc")
    log.info("object", thing=UnavailableError("X", 'pass"wört'))
    try:
        raise UnavailableError("X", 'pass"wört')
    except UnavailableError:
        log.exception("ours")
        logging.getLogger("library").exception("theirs")
    told = file.read_text()
    assert "wört" not in told
    assert "longer" not in told
    assert "abc" in told, "three letters are no secret, hiding them would garble every line"
    assert [line["event"] for line in lines(file)] == ["event [secret]", "object", "ours", "theirs"]
    assert all("UnavailableError: [secret]" in line["exception"] for line in lines(file)[2:])


def test_field_whose_name_says_secret_is_not_told(file: Path) -> None:
    configure("info", file)
    logger().info("x", api_key="plainword", bot_token="plainword", headers={"Authorization": "plainword"})
    assert "plainword" not in file.read_text()
    for name in ("password", "API-KEY", "client_secret", "token", "credentials"):
        assert names_secret(name)
    for name in ("key", "max_tokens", "tokens", "trace", "secretary"):
        assert not names_secret(name)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_file_is_private_even_if_it_was_not(file: Path) -> None:
    file.touch(mode=0o644)
    configure("info", file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_file_rotates_within_its_bound_and_stays_private(file: Path) -> None:
    configure("info", file, max_mb=1)
    for n in range(2_000):
        logger().info("line", n=n, text="x" * 1_000)
    files = sorted(file.parent.iterdir())
    assert len(files) == LOG_FILES_KEPT + 1
    assert sum(found.stat().st_size for found in files) <= 1024 * 1024
    assert {found.stat().st_mode & 0o777 for found in files} == {0o600}
    assert lines(file)[-1]["n"] == 1_999


def test_file_that_cannot_be_opened_is_an_error_of_ours(file: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        configure("info", file / "nowhere")
    assert caught.value.code == "LOG_UNUSABLE"


def test_full_disk_is_told_once_and_costs_nobody_anything(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", file)
    handler = next(h for h in logging.getLogger().handlers if getattr(h, "baseFilename", "") == str(file))
    assert isinstance(handler, logging.FileHandler)
    handler.close()
    handler.stream = Path("/dev/full").open("w")  # noqa: SIM115
    for n in range(3):
        logger().info("line", n=n, secret_word="never shown")
    told = capsys.readouterr().err
    assert told.count("cannot be written") == 1
    assert "No space left" in told
    assert "never shown" not in told


def test_configured_again_it_writes_to_the_new_place_only(file: Path) -> None:
    configure("info", file)
    logger().info("one")
    configure("info", file.with_name("other.log"))
    logger().info("two")
    assert [line["event"] for line in lines(file)] == ["one"]
    assert [line["event"] for line in lines(file.with_name("other.log"))] == ["two"]


def test_libraries_that_log_each_request_are_quiet(file: Path) -> None:
    configure("debug", file)
    logging.getLogger("httpx").info("HTTP Request: POST https://...")
    logging.getLogger("httpcore.connection").debug("connect_tcp")
    logging.getLogger("other").info("%s %d", "hello", 1)
    assert [(line["logger"], line["event"], line["level"]) for line in lines(file)] == [("other", "hello 1", "info")]


def test_what_a_task_is_about_is_on_its_lines(file: Path) -> None:
    import structlog

    configure("info", file)
    with structlog.contextvars.bound_contextvars(path="/ann/direct", trace="t"):
        logger().info("x")
    assert (lines(file)[0]["path"], lines(file)[0]["trace"]) == ("/ann/direct", "t")


# -- the terminal ------------------------------------------------------------------------------------------------------


def test_lines_on_stderr_are_readable(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", stderr=True)
    write(events.DeliveryFailed(at_ms=0, path="/ann/telegram", outbox=4, connector="telegram", reason="no route"))
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d warning reply\.failed path=/ann/telegram outbox=4 connector=telegram reason=\"no route\"\n",
        capsys.readouterr().err,
    )
    logging.getLogger("other").error("two words")
    assert capsys.readouterr().err.endswith(" error   two words (other)\n")


def test_words_of_strangers_cannot_steer_the_terminal(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", stderr=True)
    logger().info("a\x1b[2Jb", sender="x\r\n12:00:00 error forged\x9b31m", more=["\x1b"])
    try:
        raise ValueError("\x1b[2J\nforged")
    except ValueError:
        logger().exception("failed")
    told = capsys.readouterr().err
    assert all(sign == "\n" or sign.isprintable() for sign in told)
    assert not any(line.startswith(("12:00:00 error", "forged")) for line in told.splitlines())
    assert "ValueError" in told
