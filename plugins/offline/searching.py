"""How the offline responder searches memory: a few queries made of the question, and the lines that have its words.

It makes no sentence of its own: what it answers are the memories themselves, each with its number.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from daycare.base.clues import names_in, times_in
from daycare.base.messages import ToolCall, ToolResult
from daycare.plugin import InferRequest
from daycare_plugins.offline.recalled_lines import share_of, stems

_QUERIES_MAX: Final = 6
_LINES_MAX: Final = 5
_SHARE: Final = 0.5  # of a question's words, that a line has to have
_LINE: Final = re.compile(
    r"^\[(?P<label>g?\d+)\] (?P<tier>\w+) (?P<day>\S+) \S+ \S+ \(score \S+\): (?P<text>.*)$", re.MULTILINE
)
_WHEN: Final = re.compile(
    r"\b(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|m\u00e4rz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?|"
    r"sep(?:t|tember)?|oct(?:ober)?|okt(?:ober)?|nov(?:ember)?|dec(?:ember)?|dez(?:ember)?|mon(?:day)?|tues?(?:day)?|"
    r"wed(?:nesday)?|thur?s?(?:day)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?|montag|dienstag|mittwoch|donnerstag|freitag|"
    r"samstag|sonntag|last|this|next|letzte\w*|diese\w*|weeks?|woche\w*|months?|monate?s?|years?|jahre?s?|yesterday|"
    r"gestern|today|heute|ago|since|seit|until|bis|before|after|spring|summer|autumn|winter|weekend|\d+(?:st|nd|rd|th)?)\b",
    re.IGNORECASE,
)


def search(request: InferRequest, question: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the calls that a question needs; when they have been made, the answer."""
    results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
    times = times_in(request.system)
    if not results and any(tool.name == "memory_search" for tool in request.tools):
        queries = _queries(question, names_in(request.system), times)
        return "", tuple(ToolCall(f"search_{n}", "memory_search", query) for n, query in enumerate(queries))
    return _told([part.text for part in results if part.status == "ok"], question, times), ()


def _queries(question: str, names: Sequence[str], times: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the question itself, within each of its times, and about each of its names."""
    if times:
        within = [{"query": question, "since": begin, "until": end} for begin, end in times]
        found = [*within, *({**each, "entity": name} for each in within for name in names)]
    else:
        found = [{"query": question}, *({"query": question, "entity": name} for name in names)]
    return found[:_QUERIES_MAX]


def _told(results: Sequence[str], question: str, times: Sequence[tuple[str, str]]) -> str:
    wanted = stems(_WHEN.sub(" ", question) if times else question)
    lines = {found["label"]: found for result in results for found in _LINE.finditer(result)}
    shares = {label: share_of(wanted, found["text"]) for label, found in lines.items()}
    fit = [label for label in lines if shares[label] >= _SHARE] if wanted else list(lines)
    fit = [label for label in fit if not lines[label]["text"].rstrip().endswith("?")]  # what was asked tells nothing
    best = sorted(fit, key=lambda label: -shares[label])[:_LINES_MAX]
    if not best:
        return "Memory has nothing on this that I can find by its words."
    said = (f"- {lines[label]['day']}: {lines[label]['text']} [{label}]" for label in best)
    return "\n".join(("This is what memory has on it:", *said))
