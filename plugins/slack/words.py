"""Slack's own way of writing text, both ways: its escapes and what stands between angle brackets."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from daycare.messenger.style import Style
from daycare.messenger.text import one_line, valid

STYLE: Final = Style(bullet="• ", indent="    ", columns=60)
_BRACKETS: Final = re.compile(r"<([^<>\n]{1,4000})>")
_CALLS: Final = re.compile(r"<(?=[@!#])|(?<![\w.+-])@(?=\w)")  # <!channel>, <@U1>, @here
_ENTITIES: Final = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}
_ESCAPED: Final = re.compile("|".join(_ENTITIES))
_BEHIND: Final = {"|": "%7C", "<": "%3C", ">": "%3E", " ": "%20"}


def escape(text: str) -> str:
    """Return a text in which nothing is one of Slack's signs for people, channels and links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def spell(text: str, target: str) -> str:
    """Return a piece of text, linked where there is a target, as Slack writes it."""
    if not target:
        return escape(text)
    address = target.replace("&", "&amp;")
    for sign, code in _BEHIND.items():
        address = address.replace(sign, code)
    return f"<{address}|{escape(text).replace('|', '¦')}>"


def silent(markdown: str) -> str:
    """Return Markdown of ours in which Slack finds nobody to notify: a word joiner, which nobody sees, stands between.

    What has grown stays so: the result for the beginning of a text is the beginning of its result.
    """
    return _CALLS.sub("\\g<0>\u2060", valid(markdown))


def plain(text: str, name_of: Callable[[str], str] | Mapping[str, str], bot: str = "") -> str:
    """Return what somebody wrote as they saw it. `name_of` tells what people are called; mentions of `bot` go."""
    called = name_of if callable(name_of) else lambda who: name_of.get(who, who)
    if bot:
        text = re.sub(rf"(?<![ \t])[ \t]*+<@{re.escape(bot)}(?:\|[^<>]*+)?>[:,]?", "", text)
    shown = _BRACKETS.sub(lambda found: _shown(found[1], called), text)
    return _ESCAPED.sub(lambda found: _ENTITIES[found[0]], shown).strip()


def mentions(text: str, who: str) -> bool:
    """Whether a text names somebody."""
    return (bool(who) and f"<@{who}>" in text) or f"<@{who}|" in text


def people_in(text: str) -> set[str]:
    """Return the ids of the people that a text names."""
    return set(re.findall(r"<@([UW][A-Z0-9]{1,30})(?:\|[^<>]*)?>", text))


def _shown(inner: str, called: Callable[[str], str]) -> str:
    what, _, label = inner.partition("|")
    if what[:1] == "@":
        return f"@{one_line(label or called(what[1:]), 80)}"
    if what[:1] == "#":
        return f"#{label or what[1:]}"
    if what[:1] == "!":
        return label if label else f"@{what[1:].partition('^')[0]}"
    address = what.removeprefix("mailto:")
    return f"{label} ({address})" if label and label not in (address, what) else address
