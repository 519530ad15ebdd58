"""Suspicious text: passages that would steer an assistant instead of informing it, found for the person who approves.

It advises and decides nothing: permission, taint and approval do. A text is read in a plain copy (`normal`), for marks
of structure (`markers`) and for meanings (`meaning`), and so is what comes out when hidden forms are undone (`hidden`).
"""

import re
import time
import unicodedata
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
import trio

from daycare.rules import hidden
from daycare.rules.markers import PHRASES, marks, phrases
from daycare.rules.meaning import MeaningReader
from daycare.rules.normal import INVISIBLE, Copy, NormalView, bare, chunks, folded, whole
from daycare.rules.shown import shown
from daycare.rules.vocabulary import vocabulary
from daycare.rules.weighing import scales

__all__ = ["SuspiciousPassage", "scan", "scan_gently", "shown"]

FINDINGS_MAX: Final = 200  # nobody reads more; later ones only widen the last
HOLD_S: Final = 0.001  # how long the loop is held; a step may take three more
_DEPTH: Final = 2  # a form inside of a form; nobody's reader goes deeper

Severity = Literal["warning", "danger"]

_WHY: Final = {
    "override": "It tells the assistant to drop or replace its instructions.",
    "role": "It pretends to be a part of the conversation that only the system writes.",
    "bypass": "It wants something done without a person being asked or told.",
    "unconditional": "It demands an action whatever the circumstances.",
    "exfiltration": "It wants private data sent to somebody outside.",
    "secret": "It asks for a secret.",
    "persistence": "It wants to change how the assistant behaves from now on.",
    "tool": "It tries to have a tool or a command run.",
    "always": "It says what always to do, send or forward.",
    "never": "It says never to ask, check or verify.",
    "ignore": "It says to ignore what came before, or the user.",
    "address": "It contains an address; data may be sent there, or instructions fetched.",
    "hidden": "It contains characters that do not show, or that change the order of what shows.",
    "unread": "It contains more encoded text than is read.",
}
_PIECE_CHARS: Final = 8_192
_LOOK_CHARS: Final = 256  # of a passage, looked at for how it was written
_UNSEEN: Final = re.compile(f"[{INVISIBLE}]{{4,}}+|[\u202d\u202e]")
_SHOWS_NOTHING: Final = re.compile(f"[{INVISIBLE}]")
_ADDRESSES: Final = re.compile(r"(?<!\S)\S+@\S+|(?<!\w)\w++://\S+")
_ESCAPES: Final = re.compile(r"&#\w{2,8};?|&[a-zA-Z]{2,8};|%[\dA-Fa-f]{2}|\\[uxU]")
_LETTERS: Final = re.compile(r"[^\W_][^\W_@$!|]*(?:[@$!|]+[^\W_]+)*")
_FOREIGN: Final = re.compile("[\u0370-\u058f\u13a0-\u13ff\uab30-\uabbf]")
_DIGITS_INSIDE: Final = re.compile(r"[a-zA-Z][0134578@$!|]+[a-zA-Z]|^[0134578@$!|]+[a-zA-Z]{2}|[a-zA-Z]{2}[0134578@$]$")


class SuspiciousPassage(msgspec.Struct, frozen=True):
    """A passage that a person should look at before it is approved."""

    severity: Severity
    kind: str
    start: int  # in characters of the original text
    end: int
    why: str  # a sentence for a person
    form: str  # how it was hidden, or ""


def scan(text: str) -> list[SuspiciousPassage]:
    """Return what is suspicious in a text, in its order."""
    scanning = _Scan(text)
    for _ in scanning.steps():
        pass
    return scanning.found


async def scan_gently(text: str) -> list[SuspiciousPassage]:
    """Return what `scan` does, letting others run in between."""
    if not scales.cache_info().currsize:  # reading the words and their weights takes a tenth of a second, once
        await trio.to_thread.run_sync(scales)
    scanning = _Scan(text)
    await trio.lowlevel.checkpoint()
    began = time.perf_counter()
    for _ in scanning.steps():
        if time.perf_counter() - began >= HOLD_S:
            await trio.lowlevel.checkpoint()
            began = time.perf_counter()
    return scanning.found


class _Scan:
    def __init__(self, text: str) -> None:
        self.found: list[SuspiciousPassage] = []
        self._text = text
        self._spans: dict[tuple[str, str, str], list[list[int]]] = {}
        self._count = 0
        self._budget = hidden.UndoBudget()

    def steps(self) -> Iterator[None]:
        """Do the work in steps, with the result in `found`."""
        for at in range(0, len(self._text), _PIECE_CHARS):
            for found in _UNSEEN.finditer(self._text, at, min(len(self._text), at + _PIECE_CHARS)):
                self._add("hidden", "warning", "", *found.span())
            yield None
        for unseen in hidden.invisible(whole(self._text), self._budget):
            if unseen is not None:
                yield from self._read(unseen.view, unseen.name, _DEPTH - 1)
            yield None
        yield from self._read(whole(self._text), "", _DEPTH)
        if self._budget.spent:
            self._add("unread", "warning", "", 0, len(self._text))
        for (kind, severity, form), spans in self._spans.items():
            for start, end in spans:
                yield None
                if severity == "danger" or not self._known_worse(kind, start, end):
                    self.found.append(
                        SuspiciousPassage(
                            severity="danger" if severity == "danger" else "warning",
                            kind=kind,
                            start=start,
                            end=end,
                            why=_WHY[kind],
                            form=form or _looks(self._text[start : min(end, start + _LOOK_CHARS)]),
                        )
                    )
        self.found.sort(key=lambda finding: (finding.start, finding.end, finding.kind))

    def _read(self, view: NormalView, form: str, depth: int) -> Iterator[None]:
        stripped, plain_copy = Copy(), Copy()
        for chunk in chunks(view):
            part = bare(chunk)
            stripped.add(part)
            plain_copy.add(folded(part))
            yield None
        plain = plain_copy.view()
        reader = MeaningReader(plain.text, hidden=bool(form))
        for meaning in reader.read():
            if meaning is None:
                yield None
            else:
                self._add(meaning.kind, meaning.severity, form, *plain.span(meaning.start, meaning.end))
        for mark in marks(plain.text):
            yield None
            if mark is not None:
                sure = not mark.plain or reader.steers(mark.end - 1, mark.end + _LOOK_CHARS // 2)
                self._add(mark.kind, "danger" if sure else "warning", form, *plain.span(mark.start, mark.end))
        for phrase in phrases(plain.text):
            yield None
            if phrase is not None:
                kind, start, end = phrase
                self._add(kind, "warning", form, *plain.span(start, end))
        for start, end, sort in reader.addresses:
            if sort != "host":
                self._add("address", "warning", form, *plain.span(start, end))
        if depth == 0:
            return
        words, budget = vocabulary(), self._budget
        for forms in (
            hidden.encoded(stripped.view(), budget),
            hidden.spaced(plain, words, budget),
            hidden.joined(plain, reader.joined, words, budget),
            hidden.turned(plain, reader.shifted, False, budget),
            hidden.turned(plain, reader.backwards, True, budget),
        ):
            for each in forms:
                yield None
                if each is not None:
                    yield from self._read(each.view, each.name, depth - 1)

    def _add(self, kind: str, severity: str, form: str, start: int, end: int) -> None:
        spans = self._spans.setdefault((kind, severity, form), [])
        if spans and ((start <= spans[-1][1] and end >= spans[-1][0]) or self._count >= FINDINGS_MAX):
            spans[-1] = [min(start, spans[-1][0]), max(end, spans[-1][1])]
            return
        spans.append([start, end])
        self._count += 1

    def _known_worse(self, kind: str, start: int, end: int) -> bool:
        """Whether a passage is within one that is a danger for the same reason; for a phrase any reason is as good."""
        return any(
            severity == "danger"
            and (other == kind or kind in PHRASES)
            and any(first <= start and end <= last for first, last in spans)
            for (other, severity, _), spans in self._spans.items()
        )


def _looks(part: str) -> str:
    """Return how a passage that was read as it stands differs from plain letters."""
    if _SHOWS_NOTHING.search(part):
        return "invisible characters"
    part = _ADDRESSES.sub(" ", part)
    if _ESCAPES.search(part):
        return "escaped characters"
    for word in _LETTERS.findall(part):
        latin = any(char.isascii() and char.isalpha() for char in word)
        if latin and _FOREIGN.search(word):
            return "look-alike letters"
        if latin and _DIGITS_INSIDE.search(word):
            return "digits for letters"
        if not word.isascii() and unicodedata.normalize("NFKC", word) != unicodedata.normalize("NFC", word):
            return "unusual forms of letters"
    return ""
