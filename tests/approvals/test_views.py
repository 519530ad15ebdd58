"""What a person sees of a request: all of it, and nothing that pretends to be the message around it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.documents import Layer, Place
from daycare.features.approvals.records import Approval, ApprovalFinding, ApprovalState, DocumentAction
from daycare.features.approvals.views import (
    APPROVAL_SHOWN_MAX_CHARS,
    choices,
    compact,
    concluded,
    flags,
    line,
    name_of,
    outcome,
    phone,
    quoted,
)
from daycare.rules.shown import shown
from daycare_plugins.telegram.rendering import render

NOW_MS = 1_798_761_600_000
DAY_MS = 86_400_000


def request(**more: Any) -> Approval:
    verb, place = more.pop("verb", "append"), more.pop("place", Place(Layer.AGENT, "a1", "MEMORY.md"))
    fields: dict[str, Any] = {
        "no": 12,
        "key": "a1:1:1",
        "kind": "memory",
        "agent_id": "a1",
        "path": "/ann/telegram",
        "user": "ann",
        "decider": "ann",
        "action": DocumentAction(verb=verb, place=place, text="- new\n"),
        "base_hash": "",
        "salt": "s",
        "content_hash": "3fa9c1d2" * 8,
        "expires_at": NOW_MS + 7 * DAY_MS,
    }
    return Approval(**(fields | more))


def test_buttons_carry_the_number_and_the_beginning_of_the_hash() -> None:
    assert [(choice.label, choice.says) for choice in choices(request())] == [
        ("Approve", "/approve 12 3fa9c1d2"),
        ("Edit", "/edit 12"),
        ("Reject", "/reject 12"),
    ]
    assert [choice.label for choice in choices(request(verb="delete"))] == ["Approve", "Reject"]


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (Place(Layer.AGENT, "a1", "MEMORY.md"), "MEMORY.md"),
        (Place(Layer.AGENT, "a2", "MEMORY.md"), "MEMORY.md (another agent's)"),
        (Place(Layer.USER, "ann", "SOUL.md"), "SOUL.md (all agents of ann)"),
        (Place(Layer.GLOBAL, "", "IDENTITY.md"), "IDENTITY.md (everybody's)"),
        (Place(Layer.WORKSPACE, "ann", "x.md"), "x.md (the workspace of ann)"),
        (Place(Layer.PROJECT, "ann", "p/x.md"), "p/x.md (a project of ann)"),
    ],
)
def test_a_document_is_named_with_whose_it_is(place: Place, name: str) -> None:
    assert name_of(request(place=place)) == name


def test_the_change_is_shown_with_a_line_around_it() -> None:
    old = "".join(f"line {number}\n" for number in range(20))
    new = old.replace("line 3\n", "line three\n").replace("line 15\n", "")
    assert compact(old, new) == (
        "  line 2\n- line 3\n+ line three\n  line 4\n…\n  line 14\n- line 15\n  line 16",
        True,
    )
    assert compact(None, "a\n") == ("+ a", True)
    assert compact("a\nb", None) == ("- a\n- b", True)
    assert compact("a", "a\n")[0] == "(only the end of its last line)"


def test_what_is_too_long_is_cut_and_says_so() -> None:
    text, whole = compact("", "".join(f"{number:04} {'x' * 40}\n" for number in range(1_000)))
    assert not whole and len(text) < APPROVAL_SHOWN_MAX_CHARS + 100
    assert re.search(r"…\n\[cut here; 9\d\d more lines\]$", text)
    assert not compact("", "y" * 50_000)[1]


def test_dangers_come_first_and_the_rest_is_counted() -> None:
    findings = [ApprovalFinding(severity="warning", meaning=f"w{n}") for n in range(4)]
    findings.insert(3, ApprovalFinding(severity="danger", meaning="d", excerpt="z" * 500))
    said = flags(request(findings=tuple(findings)))
    assert said[0].startswith('danger: d, "zzz') and len(said[0]) < 150
    assert said[1:] == ["warning: w0", "warning: w1", "and 2 more"]


def test_a_message_tells_all_that_matters() -> None:
    it = request(
        reason="because",
        provenance=tuple(f"web page {number}" for number in range(7)),
        findings=(ApprovalFinding(severity="danger", meaning="odd"),),
        revision=2,
        edited_by="telegram:5",
    )
    text = phone(it, "+ x", ["it is large"], NOW_MS)
    for part in (
        "**Request 12**: /ann/telegram wants to add to MEMORY.md",
        "Why: because",
        "From: web page 0; web page 1; web page 2; web page 3; web page 4; and 2 more",
        "⚠ danger: odd",
        "⚠ it is large",
        "The text is by telegram:5.",
        "what you saw before no longer counts",
        "You have 7 days to decide.",
    ):
        assert part in text
    assert line(it, NOW_MS + 6 * DAY_MS) == "12 ⚠ /ann/telegram wants to add to MEMORY.md: because (24 hours left)"


def test_a_line_of_a_list_stays_one() -> None:
    assert len(line(request(reason="x" * 1_000), NOW_MS)) < 200


def test_an_outcome_says_what_who_and_when() -> None:
    it = request(state=ApprovalState.REJECTED, decided_at=NOW_MS, decided_by="telegram:5", why="*no*")
    assert outcome(it, "An`n", "Europe/Berlin") == "rejected by ``An`n (telegram:5)``, 2027-01-01 01:00: `*no*`."
    assert outcome(it, "", "UTC") == "rejected by telegram:5, 2027-01-01 00:00: `*no*`."
    it = request(state=ApprovalState.EDITED, decided_at=NOW_MS, decided_by="telegram:5", undone=2)
    assert outcome(it, "", "UTC").startswith("approved with another text by telegram:5, ")
    assert outcome(it, "", "UTC", already=True).startswith("edited already by telegram:5, ")
    assert outcome(it, "", "UTC").endswith(". It was undone since.")
    message = phone(it, "+ x", (), NOW_MS)
    assert concluded(message, "Decided.") == message.replace("You have 7 days to decide.", "Decided.")


_WILD = st.text(
    st.sampled_from("ab `*_[]()<>#+-~|!\\\n\t.:/1\u200b\u202eä") | st.characters(codec="utf-8"), max_size=120
)


@given(reason=_WILD, source=_WILD, old=_WILD, new=_WILD, excerpt=_WILD)
def test_nothing_an_agent_wrote_looks_like_a_part_of_the_message(
    reason: str, source: str, old: str, new: str, excerpt: str
) -> None:
    """Rendered as a phone does it, only our own words are bold, and all of the change stands in one block."""
    it = request(
        reason=reason,
        provenance=(source,),
        findings=(ApprovalFinding(severity="danger", meaning="odd", excerpt=excerpt),),
    )
    change, _ = compact(old, new)
    [message] = render(phone(it, change, (), NOW_MS))
    units = message.text.encode("utf-16-le")
    blocks = []
    for mark in message.entities:
        at, length = 2 * mark["offset"], 2 * mark["length"]
        content = units[at : at + length].decode("utf-16-le")
        if mark["type"] == "pre":
            blocks.append(content)
        else:
            assert mark["type"] == "code" or (mark["type"], content) == ("bold", "Request 12")
    assert [_close(block) for block in blocks] == [_close(change)]
    for words in (reason, source, excerpt):
        assert " ".join(shown(words).split()) in message.text
    assert message.text.rstrip().endswith("to decide.")


def _close(text: str) -> str:
    """Return a text without the difference between a tab and the blanks that it is shown as."""
    return re.sub(r"[ \t]+", " ", text).rstrip()


@given(_WILD)
def test_a_quoted_text_is_one_block(text: str) -> None:
    fence, *_, last = quoted(text).split("\n")
    assert fence == f"{last}diff" and last.strip("`") == ""
    assert last not in shown(text)
