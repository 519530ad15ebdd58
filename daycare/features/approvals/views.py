"""A request as people read it: on a phone, in a list, in a terminal. What is shown is what is stored.

Everything in it that an agent wrote is escaped: it cannot look like a part of the message around it.
"""

import re
from collections.abc import Sequence
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from daycare.base.differences import compare, hunks, unified
from daycare.base.documents import Layer
from daycare.base.durations import about
from daycare.base.limits import CHOICES_MAX
from daycare.base.messages import Choice
from daycare.base.times import local_time
from daycare.features.approvals.questions import QuestionAction, buttons
from daycare.features.approvals.records import Approval, ApprovalFinding, ApprovalState, CallAction
from daycare.rules.shown import shown

APPROVAL_SHOWN_MAX_CHARS: Final = 2_800  # of a difference in a message: with all around it one message of a phone
APPROVAL_FINDINGS_SHOWN: Final = 3  # named in a message, the worst first

_SEVERITIES: Final = ("danger", "warning")
_PLAIN: Final = re.compile(r"""(?:[^\W_]|[ .,;:?!'"()/@%+=-])*""")  # words that are no Markdown, whatever stands around
_PHONE_CONTEXT: Final = 1
_EXCERPT_MAX_CHARS: Final = 120
_SOURCES_SHOWN: Final = 5
_WORDS: Final = {"write": "change", "append": "add to", "delete": "delete", "call": "use"}
_OPTIONS_MAX: Final = CHOICES_MAX - 2  # with a button to decline
_ENDINGS: Final = {ApprovalState.EDITED: "approved with another text"}
_LAST_LINE: Final = re.compile(r"\n[^\n]*\Z")


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A request with what it would change: a unified diff, and what to be careful about.

    `old` is the text as it is now, `new` what it would be; None: there is none.
    """

    approval: Approval
    old: str | None
    new: str | None
    warnings: tuple[str, ...] = ()

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        action = self.approval.action
        where = action.where if isinstance(action, CallAction) else ""
        return unified(self.old, self.new, where or name_of(self.approval))


def name_of(approval: Approval) -> str:
    """Return the name of the tool and of what it changes, or the document's and, where it is another's, whose it is."""
    action, place = approval.action, approval.action.place
    if place is None:
        return f"{action.name} on {action.where}" if isinstance(action, CallAction) and action.where else action.name
    if place.layer is Layer.AGENT and place.owner == approval.agent_id:
        return place.name
    whose = {
        Layer.AGENT: "another agent's",
        Layer.USER: f"all agents of {place.owner}",
        Layer.GLOBAL: "everybody's",
        Layer.WORKSPACE: f"the workspace of {place.owner}",
        Layer.PROJECT: f"a project of {place.owner}",
    }
    return f"{place.name} ({whose[place.layer]})"


def title(approval: Approval) -> str:
    """Return what is asked for in a few words."""
    if isinstance(approval.action, QuestionAction):
        return f"the MCP server {name_of(approval)} asks you, in a call of {approval.action.tool} by {approval.path}"
    return f"{approval.path} wants to {_WORDS[approval.action.verb]} {name_of(approval)}"


def line(approval: Approval, now_ms: int) -> str:
    """Return a request as one line of a list."""
    flag = " ⚠" if approval.flagged else ""
    left = about((approval.expires_at - now_ms) / 1000)
    reason = f": {_escaped(_cut(approval.reason, _EXCERPT_MAX_CHARS))}" if approval.reason else ""
    return f"{approval.no}{flag} {_escaped(title(approval))}{reason} ({left} left)"


def phone(it: Approval, change: str, warnings: Sequence[str], now_ms: int) -> str:
    """Return the message that shows a request, as Markdown. `change` is what `compact` made of it."""
    lines = [f"**Request {it.no}**: {_escaped(title(it))}"]
    if it.revision > 1:
        lines.append("This is how it is now; what you saw before no longer counts.")
    if it.edited_by:
        lines.append(f"The text is by {_escaped(it.edited_by)}.")
    if it.reason:
        lines.append(f"Why: {_escaped(it.reason)}")
    if it.provenance:
        sources = [_cut(source, _EXCERPT_MAX_CHARS) for source in it.provenance[:_SOURCES_SHOWN]]
        more = len(it.provenance) - len(sources)
        lines.append(f"From: {_escaped('; '.join(sources))}{f'; and {more} more' if more else ''}")
    lines += [f"⚠ {_escaped(warning)}" for warning in (*flags(it), *warnings)]
    if isinstance(it.action, QuestionAction):
        lines.append(_how_to_answer(it.no, it.action))
    left = f"You have {about((it.expires_at - now_ms) / 1000)} to decide."
    return "\n".join(lines) + f"\n\n{_fenced(change)}\n{left}"


def _how_to_answer(no: int, it: QuestionAction) -> str:
    """Say what can be done with a question, before its words, which are the server's alone."""
    if it.url:
        odd = " Its name is an xn-- one, as those are that look like another's." if "xn--" in it.host else ""
        return f"It wants you to open a page of {_escaped(it.host)}. Look at the address first.{odd} I do not open it."
    lines = " (a line for each field: name: value)" if len(it.fields) > 1 else ""
    typed = f"Reply to this message with your answer{lines}, or write /answer {no} ANSWER. " if it.fields else ""
    return f"{typed}Never give it a password or a key. What follows are its words:"


def outcome(it: Approval, name: str, zone: str, *, already: bool = False) -> str:
    """Return what became of a request; `name` is that of who decided, the time is told in `zone`."""
    state = ApprovalState.EXPIRED if it.state is ApprovalState.PENDING else it.state  # it will be, at the next look
    by = f" by {_escaped(f'{name} ({it.decided_by})' if name else it.decided_by)}" if it.decided_by else ""
    at = local_time(it.decided_at or it.expires_at, ZoneInfo(zone))
    why = it.why or ("nobody decided in time" if state is ApprovalState.EXPIRED else "")
    undone = " It was undone since." if it.undone is not None else ""
    how = f"{state} already" if already else _ENDINGS.get(state, str(state))
    return f"{how}{by}, {at:%Y-%m-%d %H:%M}{why and f': {_escaped(why)}'}.{undone}"


def concluded(message: str, said: str) -> str:
    """Return the message that showed a request, with `said` in place of how long there is to decide."""
    return _LAST_LINE.sub(lambda _: f"\n{said}", message)


def choices(approval: Approval) -> tuple[Choice, ...]:
    """Return the buttons below a request: they decide this very content."""
    no, seen = approval.no, approval.seen
    if isinstance(approval.action, QuestionAction):
        fits = buttons(approval.action.fields, _OPTIONS_MAX)
        said = (Choice(label, f"/answer {no} {seen} {says}".rstrip()) for label, says in fits)
        return (*said, Choice("Decline", f"/reject {no}"))
    between: tuple[Choice, ...] = () if approval.action.verb == "delete" else (Choice("Edit", f"/edit {no}"),)
    if approval.action.verb == "call":
        later = (("In this conversation…", "session"), ("Always…", "always"))
        offered = () if approval.alone else later
        between = tuple(Choice(label, f"/approve {no} {seen} {scope}") for label, scope in offered)
    return (Choice("Approve", f"/approve {no} {seen}"), *between, Choice("Reject", f"/reject {no}"))


def quoted(text: str) -> str:
    """Return a text as a block that shows it as it is."""
    return _fenced(shown(text).rstrip("\n"))


def quoted_inline(text: str) -> str:
    """Return words that an agent wrote, as they are, within a sentence."""
    return _escaped(text)


def compact(old: str | None, new: str | None) -> tuple[str, bool]:
    """Return removed and added lines for a small screen, and whether these are all."""
    changes = compare(_ended(shown(old or "")), _ended(shown(new or "")))
    parts = [
        "\n".join(f"{mark} {text}" for mark, text in changes[first:stop])
        for first, stop in hunks(changes, _PHONE_CONTEXT)
    ]
    lines = "\n…\n".join(parts or ["(only the end of its last line)"]).split("\n")
    kept: list[str] = []
    room = APPROVAL_SHOWN_MAX_CHARS
    for each in lines:
        if len(each) >= room:
            left = len(lines) - len(kept) - 1
            kept += [f"{each[:room]}…", f"[cut here; {left} more lines]"]
            return "\n".join(kept), False
        room -= len(each) + 1
        kept.append(each)
    return "\n".join(kept), True


def flags(approval: Approval) -> list[str]:
    """Return what is suspicious about a request, the worst first."""
    worst = worst_first(approval.findings)
    said = [
        f"{each.severity}: {each.meaning}" + (f', "{_cut(each.excerpt, _EXCERPT_MAX_CHARS)}"' if each.excerpt else "")
        for each in worst[:APPROVAL_FINDINGS_SHOWN]
    ]
    more = len(worst) - len(said)
    return [*said, f"and {more} more"] if more else said


def worst_first(findings: Sequence[ApprovalFinding]) -> list[ApprovalFinding]:
    """Return what was found, dangers before warnings."""
    return sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity))


def _fenced(text: str) -> str:
    """Return a block of code that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}diff\n{text}\n{fence}"


def _escaped(text: str) -> str:
    """Return words on one line that are no Markdown: as code, if they could be; an escape may still be a formula."""
    words = " ".join(shown(text).split())
    if _PLAIN.fullmatch(words):
        return words
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", words)), default=0) + 1)
    return f"{ticks} {words} {ticks}" if words[:1] == "`" or words[-1:] == "`" else f"{ticks}{words}{ticks}"


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1]}…"
