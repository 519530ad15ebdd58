"""Known secrets are found in whatever form they stand in a text, what is none is let be, and that costs little."""

import base64
import json
import logging
import random
import threading
import warnings
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from daycare.base import foreign
from daycare.base.errors import InvalidError
from daycare.base.events import DeliveryFailed, Notice, ToolProgress, TurnFinished
from daycare.base.messages import Message, ToolCall, Usage
from daycare.base.secrecy import SECRET, forget_hidden, hide, hide_key, without_known
from daycare.base.veil import Veil
from daycare.observe import log
from daycare.observe.bus import Bus
from daycare.observe.log import LOG_VALUE_MAX_CHARS
from daycare.observe.streams import Redacted
from daycare.plugin import Completion, Unreadable
from daycare.tools import lengthy
from tests.cost import ROUNDS, cost, holds
from tests.observe.encodings import forms, shown

KEY = "sk-proj-" + "Ab9-Xy7_Qw3" * 3
ODD = 'pass"wört / ü + & <x> %41 \\n end'
PEM = "-----BEGIN KEY-----\n" + "QWxsIG1lbiBhcmUgbW9ydGFs\nU29jcmF0ZXMgaXMgYSBtYW4uXw\n" + "-----END KEY-----\n"


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    forget_hidden()
    yield
    forget_hidden()


def left(secret: str, text: str) -> list[str]:
    """Return the forms of a secret that stand in a text."""
    return [name for name, form in forms(secret) if form in text]


@pytest.mark.parametrize(
    "secret", [KEY, ODD, PEM, "hunter22hunter22", "emoji 😀 pass/word+x%y", "0123456789abcdef" * 2]
)
def test_a_secret_is_found_in_every_form(secret: str) -> None:
    texts = dict(shown(secret))
    assert all(left(secret, text) for text in texts.values()), "the search itself would find nothing"
    hide(secret)
    for name, text in texts.items():
        clean = without_known(f"before {text} after")
        assert SECRET in clean, name
        assert not left(secret, clean), name
        assert clean.startswith("before ") and clean.endswith(" after"), name


@settings(max_examples=150, deadline=None)
@given(secret=st.text(st.characters(min_codepoint=33, max_codepoint=0x2FFF), min_size=8, max_size=60), around=st.text())
def test_any_secret_is_found_in_every_form_between_any_words(secret: str, around: str) -> None:
    assume(SECRET not in secret)  # nobody's: what stands in its place would be one
    forget_hidden()
    hide(secret)
    for name, text in shown(secret):
        clean = without_known(f"{around} {text} {around}")
        assert SECRET in clean, name
        assert secret not in clean, name


def test_bytes_are_found_in_hex_and_base64() -> None:
    raw = bytes(range(200, 232))
    key = base64.urlsafe_b64encode(raw).decode()
    hide_key(key)
    for text in (
        key,
        base64.b64encode(raw).decode(),
        raw.hex(),
        raw.hex(":").upper(),
        base64.b64encode(b"x" + raw).decode(),
    ):
        assert SECRET in without_known(f"is {text} here")


def test_a_secret_in_a_secret_and_two_side_by_side_leave_nothing() -> None:
    hide(KEY)
    hide(f"{KEY}:{ODD}")
    assert without_known(f"{KEY}:{ODD}") == SECRET
    assert without_known(f"{KEY}{KEY}") == SECRET * 2


@pytest.mark.parametrize("sign", ["", "...", "…", "\n"])
def test_what_is_left_of_a_secret_that_others_have_cut_is_not_told(sign: str) -> None:
    hide(KEY)
    for many in range(10, len(KEY)):
        clean = without_known(f"it said: {KEY[:many]}{sign}")
        assert KEY[:10] not in clean
        assert clean.startswith("it said: ")


@pytest.mark.parametrize("secret", ["abcdefghijkl mnopqrst", "abcdefghijkl,m%nopqrst", "correct horse battery staple"])
def test_a_secret_of_several_words_may_be_cut_within_any_of_them(secret: str) -> None:
    hide(secret)
    for many in range(10, len(secret)):
        assert secret[:10] not in without_known(f"it said: {secret[:many]}...")


def test_a_text_that_is_nothing_but_a_secret_or_its_beginning_is_not_told() -> None:
    hide(KEY)
    assert without_known(KEY) == without_known(KEY[:10]) == SECRET
    hide("Anna")
    assert without_known("Anna") == SECRET


def test_short_secrets_do_not_garble_what_is_said() -> None:
    hide("abc")
    hide("home")
    hide("Anna")
    assert without_known("abc of ABC, banana, at Home") == "abc of ABC, banana, at Home"
    assert without_known("the home") == f"the {SECRET}"
    hide("")


def test_words_that_share_letters_with_a_secret_stay() -> None:
    hide(KEY)
    text = "sk-pro and SK-PROJ, base64 c2stcHJv, hex 736b2d, %73%6b at /ann/telegram 12:30:45"
    assert without_known(text) == text


def test_the_newest_secrets_are_known_however_many_there_were() -> None:
    for number in range(700):
        hide(f"secret number {number} of many")
    assert SECRET in without_known("secret number 699 of many")


def test_errors_are_clean_from_the_start() -> None:
    hide(KEY)
    error = InvalidError("X", f"asking with {KEY}", hint=f"not {KEY.encode().hex()}")
    assert KEY not in f"{error} {error!r} {error.args} {error.message} {error.hint}"
    assert "736b2d70" not in error.hint


def test_events_tell_no_secret_and_conversation_is_as_it_was() -> None:
    hide(KEY)
    bus = Bus()
    bus.publish(DeliveryFailed(at_ms=0, outbox=1, connector="telegram", reason=f"POST {KEY}"))
    bus.publish(ToolProgress(at_ms=0, turn=1, step=1, tool="x", text=KEY))
    bus.publish(Notice(at_ms=0, text=KEY))
    bus.publish(TurnFinished(at_ms=0, turn=1, reply=f"your key is {KEY}", seqs=(1,)))
    assert [KEY in repr(bus.at(at)) for at in range(4)] == [False, False, False, True]


def test_a_value_is_cut_after_it_was_redacted(tmp_path: Path) -> None:
    hide(KEY)
    log.configure("info", tmp_path / "log")
    for before in range(LOG_VALUE_MAX_CHARS - len(KEY), LOG_VALUE_MAX_CHARS, 3):
        log.write(DeliveryFailed(at_ms=0, outbox=1, connector="x", reason="y" * before + KEY))
    log.configure("info")
    assert KEY[:12] not in (tmp_path / "log").read_text()


def test_libraries_warnings_and_notes_tell_no_secret(tmp_path: Path) -> None:
    hide(KEY)
    log.configure("info", tmp_path / "log", stderr=False)
    try:
        error = ValueError(KEY)
        error.add_note(f"note {KEY}")
        raise error
    except ValueError:
        logging.getLogger("library").exception("theirs %r", {"key": KEY.encode()}, stack_info=True)
    logging.captureWarnings(True)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(f"old key {KEY}", stacklevel=1)
    logging.captureWarnings(False)
    log.configure("info")
    told = (tmp_path / "log").read_text()
    assert told.count(SECRET) >= 4
    assert "py.warnings" in told
    assert not left(KEY, told)


def test_json_lines_go_to_stderr_where_they_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", stderr=True, pretty=False)
    log.logger().info("what.happened", n=1)
    log.configure("info")
    assert json.loads(capsys.readouterr().err)["event"] == "what.happened"


def test_what_is_printed_in_pieces_is_redacted_as_a_line() -> None:
    hide(KEY)
    out = StringIO()
    stream = Redacted(out)
    print("the key is", KEY[:10], sep=" ", end="", file=stream)
    print(KEY[10:], file=stream)
    stream.buffer.write(f"bytes {KEY}\n".encode())
    assert out.getvalue().endswith(f"bytes {SECRET}\n")
    print("half", end="", file=stream)
    stream.flush()
    assert out.getvalue().endswith("half")


def test_threads_that_print_at_the_same_time_lose_no_line() -> None:
    out = StringIO()
    stream = Redacted(out)
    threads = [threading.Thread(target=lambda: [print("x" * 50, file=stream) for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(map(len, out.getvalue().split())) == 4 * 200 * 50


def test_twenty_secrets_cost_a_line_of_the_log_little() -> None:
    """Not much more than one: three times as much where this was written, 25 us."""
    line = "at 12:30 the provider said: 429 too many requests, wait 20 s (request id req_0123456789abcdef01234)"

    def read_often() -> None:
        for _ in range(200):
            without_known(line)

    hide("one" + "kQ7-" * 9)
    of_one = min(cost(read_often) for _ in range(3))
    for number in range(20):
        hide(f"{number:02}" + "kQ7-" * 9)
    assert any(cost(read_often) < 10 * of_one for _ in range(ROUNDS))


@pytest.mark.parametrize("form", [KEY, KEY.encode().hex(), "".join(f"\\u{ord(sign):04x}" for sign in KEY)])
def test_a_secret_is_found_wherever_it_stands_in_a_long_text(form: str) -> None:
    hide(KEY)
    text = "so many words. " * 8_000
    for at in range(0, len(text), 1_997):
        assert without_known(text[:at] + form + text[at:]) == text[:at] + SECRET + text[at:]
        assert without_known(text[:at] + form[:-1] + "#" + text[at:]).count(SECRET) == 0


def test_a_secret_that_comes_in_pieces_is_in_nothing_that_is_let_through() -> None:
    secrets = [KEY, ODD, "hunter22hunter22", "my verify word 7", "aabaabaabaac"]
    for secret in secrets:
        hide(secret)
    words = [*secrets, *(each.encode().hex() for each in secrets), KEY[:12], "aab", "sk-", " and ", "ü\n"]
    chance = random.Random(3)
    for _ in range(2_000):
        text = rest = "".join(chance.choices(words, k=chance.randint(0, 8)))
        veil, shown = Veil(), ""
        while rest:
            at = chance.randint(1, 12)
            shown, rest = shown + veil.feed(rest[:at]), rest[at:]
        shown += veil.end()
        assert not [secret for secret in secrets if secret in shown or secret.encode().hex() in shown], text
        if without_known(text) == text:
            assert shown == text, "what is no secret is let through, all of it"


def test_of_words_that_are_no_secret_only_the_end_is_held_back() -> None:
    hide(KEY)
    text = "The agent writes some words, and then a few more. " * 9
    assert len(Veil().feed(text)) >= len(text) - 8


async def test_a_long_text_from_outside_is_looked_through_without_holding_others_up() -> None:
    hide("a secret that nobody may see")
    escaped = "%41" * 200_000
    whole = cost(lambda: without_known(escaped))
    said = Unreadable(key="k", reason="r", body=escaped)
    calls = Message("assistant", (ToolCall("c", "t", {f"n{n}": [f"%41{n}" * 10] for n in range(4_000)}),))
    done = Completion(message=calls, finish="tools", usage=Usage())
    many = cost(lambda: foreign.struct(done, Completion))
    assert (await holds(lambda: lengthy.struct(done, Completion)))[-1] < many / 3
    for work in (
        lambda: lengthy.content(escaped.encode(), 10**7),
        lambda: lengthy.text(escaped),
        lambda: lengthy.struct(said, Unreadable),
    ):
        assert (await holds(work))[-1] < whole / 3
