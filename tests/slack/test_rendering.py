"""What a model writes, as Slack takes it: the fake, which is strict, refuses nothing of it."""

import pytest

from daycare_plugins.slack import choices, outgoing, words
from daycare_plugins.slack.emoji import name_of, sign_of
from tests.chance import SEED, WHOLE
from tests.slack.campaign import render
from tests.slack.campaign.documents import SlackAuthor

DOCUMENTS = 3_000 if WHOLE else 60


def test_whatever_is_written_is_taken_is_complete_and_notifies_nobody() -> None:
    print(f"SEED={SEED}")
    assert not render.run(DOCUMENTS, SEED).findings


def test_the_judge_of_rendering_sees_what_is_refused_loud_or_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "escape", str)
    monkeypatch.setattr(render, "silent", str)
    monkeypatch.setattr(outgoing, "TEXT_UNITS", 9_000)
    monkeypatch.setattr(SlackAuthor, "_head", lambda self: f"{self._mark()[:-1]}")
    assert {kind for kind, _ in render.run(20, SEED).findings} >= {"refused", "loud", "lost"}


def test_signs_are_slacks_own_and_nothing_names_anybody_by_accident() -> None:
    text = "**b** _i_ ~~s~~ `c<d` <@U1> <!channel> & [x|y](https://a.example/?q=1&r=2)\n\n> q"
    assert outgoing.texts_of(text) == (
        "*b* _i_ ~s~ `c&lt;d` &lt;@U1&gt; &lt;!channel&gt; &amp; <https://a.example/?q=1&amp;r=2|x¦y>\n\n> q",
    )


def test_what_people_write_is_read_as_they_saw_it() -> None:
    names = {"U2": "Ben"}
    said = "<@U0BOT> ask <@U2> in <#C1|team>: <https://a.example|here> &amp; <mailto:a@b.c|a@b.c> &lt;x&gt; <!here>"
    shown = "ask @Ben in #team: here (https://a.example) & a@b.c <x> @here"
    assert words.plain(said, names, "U0BOT") == shown


def test_a_button_gives_back_what_it_says() -> None:
    for number, says in enumerate(("yes", "#1", "##2", "y" * 3_000, "")):
        assert choices.decode(choices.encode(says, number), "label") == (says if 0 < len(says) <= 2_000 else "label")


def test_emoji_have_slacks_names() -> None:
    assert (name_of("👍"), name_of("❤️"), name_of("🦓")) == ("+1", "heart", None)
    assert (sign_of("+1::skin-tone-2"), sign_of("thumbsup"), sign_of("partyparrot")) == ("👍", "👍", ":partyparrot:")
