"""What a model writes, as Slack takes it: the fake, which is strict, refuses nothing of it."""

import random

import pytest
from msgspec.structs import replace

from daycare.base.connector import Outgoing
from daycare.base.messages import Choice
from daycare.testing.http_server import Params
from daycare_plugins.slack import choices, outgoing, words
from daycare_plugins.slack.emoji import name_of, sign_of
from daycare_plugins.slack.testing import rules
from tests.chance import sliced

PIECES = (
    *(
        "**bold**",
        "_it_",
        "~~gone~~",
        "`a<b>&c`",
        "[link](https://a.example/x?y=1&z=<2>|3)",
        "> quote",
        "# head",
        "<b>x</b>",
    ),
    *(
        "- item",
        "1. one",
        "| a | b |\n|---|---|\n| <1> | & |",
        "```py\nif a < b && c > d: pass\n```",
        "<!channel>",
        "<@U1>",
    ),
    *("<b>x</b>", "<!channel>", "&amp;", "🙂", "x" * 400, "äöü", "\n\n", "$a<b$", "~", "*", "_"),
)


def document(seed: int) -> str:
    chance = random.Random(seed)
    return chance.choice((" ", "\n", "")).join(chance.choice(PIECES) for _ in range(chance.randrange(1, 80)))


@pytest.mark.parametrize("first", sliced(list(range(0, 3_000, 100)), 4))
def test_whatever_is_written_is_taken(first: int) -> None:
    for seed in range(first, first + 100):
        offered = tuple(Choice(label=f"<{n}>", says="y" * (n * 60)) for n in range(seed % 40))
        reply = Outgoing(outbox=1, key="k", path="/a/b", user="a", target="U1", text=document(seed), choices=offered)
        for part in outgoing.split(reply):
            if not part.text:
                continue
            for sent in (outgoing.message(part), outgoing.message(replace(part, maybe_duplicate=True))):
                params = Params(sent)
                rules.check_text(params.text("text"))
                rules.blocks_in(params)
                assert rules.metadata_in(params), f"seed {seed}"


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
