"""Suspicious text: passages that would steer an assistant instead of informing it, found for the person who approves.

It advises and decides nothing: permission, taint and approval do. A text is read in a plain copy (`normal`), for marks of
structure (`markers`) and for meanings (`meaning`), and so is what comes out when hidden forms are undone (`hidden`).
"""

import re
import time
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
import trio

from daycare.rules import hidden
from daycare.rules.markers import marks
from daycare.rules.meaning import Reader
from daycare.rules.normal import INVISIBLE, View, bare, chunks, folded, joined, whole
from daycare.rules.vocabulary import vocabulary

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
    "address": "It contains an address; data may be sent there, or instructions fetched.",
    "hidden": "It contains characters that do not show, or that change the order of what shows.",
    "unread": "It contains more encoded text than is read.",
}
_UNSEEN: Final = re.compile(f"[{INVISIBLE}]{{4,}}+|[\u202d\u202e]")
_MIXED: Final = re.compile(r"(?=[^\W\d_]*[a-z])(?=[^\W\d_]*[\u0370-\u058f\uab30-\uabbf\u13a0-\u13ff])[^\W\d_]{2,40}", re.I)
_LEET: Final = re.compile(r"(?<![^\W_])(?=[a-z0-9@$!|]*[a-z])[a-z]*[013457@$!|]+[a-z][a-z0-9@$!|]*", re.I)
_ESCAPES: Final = re.compile(r"&#?\w{2,24};?|%[\da-f]{2}|\\[ux]", re.I)


class Finding(msgspec.Struct, frozen=True):
    """A passage that a person should look at before it is approved."""

    severity: Severity
    kind: str
    start: int  # in characters of the original text
    end: int
    why: str  # a sentence for a person
    form: str  # how it was hidden, or ""


def scan(text: str) -> list[Finding]:
    """Return what is suspicious in a text, in its order."""
    scanning = _Scan(text)
    for _ in scanning.steps():
        pass
    return scanning.findings()


async def scan_gently(text: str) -> list[Finding]:
    """Return what `scan` does, letting others run in between."""
    scanning = _Scan(text)
    await trio.lowlevel.checkpoint()
    began = time.perf_counter()
    for _ in scanning.steps():
        if time.perf_counter() - began >= HOLD_S:
            await trio.lowlevel.checkpoint()
            began = time.perf_counter()
    return scanning.findings()


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._found: dict[tuple[str, str, str], list[list[int]]] = {}
        self._count = 0
        self._decoded = 0

    def findings(self) -> list[Finding]:
        found = [
            Finding(
                severity="danger" if severity == "danger" else "warning",
                kind=kind,
                start=start,
                end=end,
                why=_WHY[kind],
                form=form or self._looks(start, end),
            )
            for (kind, severity, form), spans in self._found.items()
            for start, end in spans
        ]
        return sorted(found, key=lambda finding: (finding.start, finding.end, finding.kind))

    def steps(self) -> Iterator[None]:
        for found in _UNSEEN.finditer(self._text):
            self._add("hidden", "warning", "", *found.span())
            yield None
        for form in hidden.invisible(whole(self._text)):
            if form is not None:
                yield from self._undone(form, _DEPTH)
            yield None
        yield from self._read(whole(self._text), "", _DEPTH)

    def _read(self, view: View, form: str, depth: int) -> Iterator[None]:
        words = vocabulary()
        bares: list[View] = []
        plains: list[View] = []
        for chunk in chunks(view):
            bares.append(bare(chunk))
            plains.append(folded(bares[-1]))
            yield None
        if not bares:
            return
        stripped, plain = joined(bares), joined(plains)
        reader = Reader(plain.text)
        for meaning in reader.read():
            if meaning is None:
                yield None
                continue
            severity = meaning.severity
            if meaning.reported:
                if meaning.kind != "exfiltration":
                    continue
                severity = "warning"
            self._add(meaning.kind, severity, form, *plain.span(meaning.start, meaning.end))
        yield None
        for mark in marks(plain.text):
            if mark is None:
                yield None
            else:
                self._add(mark.kind, mark.severity, form, *plain.span(mark.start, mark.end))
        for start, end, sort in reader.addresses:
            if sort != "host":
                self._add("address", "warning", form, *plain.span(start, end))
        if depth == 0:
            return
        for forms in (
            hidden.encoded(stripped),
            hidden.spaced(plain, words),
            hidden.joined(plain, reader.joined, words),
            hidden.turned(plain, reader.turned),
        ):
            for each in forms:
                if each is not None:
                    yield from self._undone(each, depth)
                yield None

    def _undone(self, form: hidden.Form, depth: int) -> Iterator[None]:
        self._decoded += len(form.view.text)
        if self._decoded > hidden.DECODED_MAX_CHARS:
            self._add("unread", "warning", "", form.view.starts[0], form.view.ends[-1])
            return
        yield from self._read(form.view, form.name, depth - 1)

    def _add(self, kind: str, severity: str, form: str, start: int, end: int) -> None:
        spans = self._found.setdefault((kind, severity, form), [])
        if spans and (start <= spans[-1][1] and end >= spans[-1][0] or self._count >= FINDINGS_MAX):
            spans[-1] = [min(start, spans[-1][0]), max(end, spans[-1][1])]
            return
        spans.append([start, end])
        self._count += 1

    def _looks(self, start: int, end: int) -> str:
        """Return how a passage that was read as it stands differs from plain letters."""
        part = self._text[start : min(end, start + 2_048)]
        if re.search(f"[{INVISIBLE}]", part):
            return "invisible characters"
        if _MIXED.search(part):
            return "look-alike letters"
        if _ESCAPES.search(part):
            return "escaped characters"
        if _LEET.search(part):
            return "digits for letters"
        return ""
