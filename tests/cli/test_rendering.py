"""What people read, without a process around it."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.api.client import Json, StreamEvent, parse_events
from daycare.base.english import plural
from daycare.base.errors import InvalidError
from daycare.base.sizes import size
from daycare.cli.agents import read_settings
from daycare.cli.chat_screen import Screen
from daycare.cli.dead import letter_facts, letters_table, read_age
from daycare.cli.process import _cron
from daycare.cli.render import one_line, plain, table
from tests.cli.fake_daemon import OWNER

Capture = pytest.CaptureFixture[str]


def event(name: str, **fields: object) -> StreamEvent:
    return StreamEvent(name, {"event": name, "at_ms": 0, "path": OWNER, "turn": 1, **fields})


def screen(width: int = 80) -> Screen:
    return Screen(OWNER, color=False, width=width)


def row(seq: int, text: str, turn: int | None = 1) -> Json:
    return {"seq": seq, "text": text, "turn": turn, "created_at": 0}


def test_streamed_reply_is_not_printed_again(capsys: Capture) -> None:
    shown = screen()
    for piece in ("Hel", "lo\nthe", "re"):
        shown.show_event(event("turn.delta", text=piece))
    assert shown.tail == "there"
    assert shown.show_event(event("turn.finished", reply="Hello\nthere", seqs=[1]))
    assert shown.show_replies([row(5, "Hello\nthere")]) == [5]
    assert capsys.readouterr().out == "Hello\nthere\n"


def test_final_reply_wins_over_what_was_streamed(capsys: Capture) -> None:
    shown = screen()
    shown.show_event(event("turn.delta", text="Let me se"))
    shown.show_event(event("turn.finished", reply="It is six.", seqs=[1]))
    assert capsys.readouterr().out == "Let me se\nIt is six.\n"


def test_text_before_a_tool_call_does_not_make_the_final_reply_appear_twice(capsys: Capture) -> None:
    shown = screen()
    shown.show_event(event("turn.delta", text="I look."))
    shown.show_event(event("tool.started", step=1, tool="clock"))
    shown.show_event(event("tool.finished", step=1, tool="clock", status="ok"))
    shown.show_event(event("turn.delta", text="It is six."))
    shown.show_event(event("turn.finished", reply="It is six.", seqs=[1]))
    assert capsys.readouterr().out == "I look.\n  · clock\n  · clock: ok\nIt is six.\n"


def test_text_of_a_try_that_failed_is_void(capsys: Capture) -> None:
    shown = screen()
    shown.show_event(event("turn.delta", text="It is s"))
    shown.show_event(event("model.failed", provider="a", model="m", code="STREAM_CUT", reason="cut", retry_in_s=1.0))
    shown.show_event(event("turn.delta", text="It is six."))
    shown.show_event(event("turn.finished", reply="It is six.", seqs=[1]))
    assert capsys.readouterr().out == "It is s\n  ! cut (asking again)\nIt is six.\n"


def test_a_turn_that_waits_for_others_is_told_and_does_not_look_busy(capsys: Capture) -> None:
    shown = screen()
    shown.show_event(event("turn.started", turn=1))
    shown.show_event(event("tool.progress", turn=1, step=1, tool="dig", text="half way"))
    busy = [shown.busy]
    shown.show_event(event("turn.waiting", turn=1, answers=2))
    assert [*busy, shown.busy] == [True, False]
    shown.show_event(event("context.compacted", turns=3, through=9, tokens_before=9, tokens_after=3))
    assert capsys.readouterr().out == (
        "  · dig: half way\n  · waiting for 2 answers; go on if you like\n  · summed up the earlier conversation\n"
    )


def test_second_reply_of_a_turn_is_shown(capsys: Capture) -> None:
    shown = screen()
    shown.show_event(event("turn.finished", reply="done", seqs=[1]))
    assert shown.show_replies([row(5, "done"), row(6, "warning: it may have run twice")]) == [5, 6]
    assert capsys.readouterr().out == "done\nwarning: it may have run twice\n"


@pytest.mark.parametrize("event_first", [True, False])
def test_answer_that_was_waited_for_is_shown_once(capsys: Capture, event_first: bool) -> None:
    shown = screen()
    finished = event("turn.finished", reply="pong", seqs=[3])
    if event_first:
        shown.show_event(finished)
    shown.show_answer({"seq": 3, "state": "done", "result": "pong", "replies": [row(9, "pong")]})
    if not event_first:
        shown.show_event(finished)
    assert shown.show_replies([row(9, "pong")]) == [9]
    assert capsys.readouterr().out == "pong\n"


def test_events_of_other_agents_are_not_shown(capsys: Capture) -> None:
    shown = screen()
    shown.show_event(StreamEvent("turn.finished", {"path": "/ann/agent/x", "turn": 4, "reply": "no", "seqs": []}))
    assert capsys.readouterr().out == ""


def test_window_is_busy_until_its_message_is_answered() -> None:
    shown = screen()

    def busy() -> bool:
        return shown.busy

    shown.sent(3)
    assert busy()
    shown.show_event(event("turn.started", attempt=1, messages=1))
    shown.show_event(event("turn.finished", reply="", seqs=[3]))
    assert not busy()
    shown.sent(3)  # the answer was faster than the receipt
    assert not busy()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), max_size=20), st.integers(20, 100))
def test_streaming_keeps_every_word(pieces: list[str], width: int) -> None:
    printed: list[str] = []
    shown = Screen(OWNER, color=False, width=width, write=printed.append)
    for piece in pieces:
        shown.show_event(event("turn.delta", text=piece))
    told = "".join([*printed, shown.tail])
    assert "".join(told.split()) == "".join(plain("".join(pieces)).split())
    assert len(shown.tail) < width


@given(st.text())
def test_plain_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    assert all(sign.isprintable() or sign in "\n\t" or ord(sign) > 0x9F for sign in plain(text))


def test_stream_of_events_is_parsed_and_a_cut_event_dropped() -> None:
    chunks = [b": hi\n\n", b'id: 7\nevent: turn.delta\ndata: {"text":\ndata: "a"}\n\nevent: gap\ndata: {}\n']
    assert list(parse_events(chunks)) == [StreamEvent("tick"), StreamEvent("turn.delta", {"text": "a"}, "7")]


def test_table_as_text_is_aligned_also_with_wide_letters() -> None:
    text = str(table(("no#", "name", "reason"), [(1, "日本", "a\nb"), (10, "ann", None)]))
    assert text.splitlines() == ["no  name  reason", " 1  日本  a b", "10  ann"]


def test_sizes_and_lines_read_well() -> None:
    assert [size(n) for n in (0, 1023, 1024, 5 * 1024**3)] == ["0 B", "1023 B", "1.0 KiB", "5.0 GiB"]
    assert one_line("a\n b\x1b c" * 50, 10) == "a b ca b …"


def test_ages_need_a_unit() -> None:
    assert [read_age(text) for text in ("90s", "15m", "12h", "30d", "2w")] == [90, 900, 43_200, 2_592_000, 1_209_600]
    for wrong in ("30", "d", "-1d", "1.5h", ""):
        with pytest.raises(InvalidError):
            read_age(wrong)


def test_settings_are_text_or_json() -> None:
    assert read_settings(["model=a/b", "tools=[]", "name=", "system_prompt=x=y"]) == {
        "model": "a/b", "tools": [], "name": "", "system_prompt": "x=y",
    }  # fmt: skip


def test_dead_letter_shows_the_words_of_its_envelope() -> None:
    from rich.console import Console

    letter = {
        "no": 3, "path": OWNER, "user": "ann", "source": "inbox", "seq": 9, "origin": "person", "code": "MODEL_DOWN",
        "reason": "it was [red]away", "attempts": 5, "trace": "t", "created_at": 0, "body": '{"text": "hello"}',
    }  # fmt: skip
    console = Console(width=100, file=io.StringIO())
    console.print(letters_table({"dead": [letter]}), letter_facts(letter))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "MODEL_DOWN" in text and "it was [red]away" in text and "hello" in text


@pytest.mark.parametrize(
    ("word", "one", "many"),
    [
        ("memory", "memory", "memories"),
        ("job", "job", "jobs"),
        ("summary", "summary", "summaries"),
        ("key", "key", "keys"),
        ("address", "address", "addresses"),
    ],
)
def test_so_many_of_a_thing_are_named_in_english(word: str, one: str, many: str) -> None:
    assert [plural(word, count) for count in (0, 1, 2)] == [many, one, many]


def test_the_status_counts_jobs_in_english() -> None:
    assert [_cron({"jobs": jobs, "problems": []}) for jobs in (1, 2)] == ["1 job", "2 jobs"]
