"""What a person sees of a running turn: the words so far, and one line about its tools."""

import math
import re
from dataclasses import dataclass
from typing import Final

from daycare.base.durations import duration
from daycare.base.limits import PROGRESS_MAX_CHARS

PREVIEW_FIRST_CHARS: Final = 20  # some words: a draft that begins with half of one looks broken
PREVIEW_FIRST_S: Final = 0.5  # ... or what came by then
PREVIEW_MAX_CHARS: Final = 3_000  # shown of a long text, its end: a screen or two, and under every platform's limit
PREVIEW_KEPT_CHARS: Final = 2_000  # when it is cut, so that its beginning does not move with each word
STATUS_AFTER_S: Final = 2.0  # before a message is sent for what may be over by then
STATUS_TICK_S: Final = 10.0  # between two looks at the time a tool takes; drafts fade after 30 s

NOTHING: Final = "…"  # stands where words were that are void

_UNREAD_MAX_CHARS: Final = 4 * PREVIEW_MAX_CHARS  # kept while nobody looks
_FENCE: Final = re.compile(r"^[^\S\n]*+```", re.MULTILINE)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch


@dataclass
class _Tool:
    name: str
    started: float
    progress: str = ""
    seconds: int = 0  # as shown: it follows the time in ticks, so that a line does not change by itself all the time


class Preview:
    """Events go in at the same small cost, however long the text is; `look` gives Markdown to be shown.

    `stream` shows the words, `progress` the line. `fleeting`: what is shown goes away by itself, so it may come soon; a
    message of its own comes only for what lasts. All times are trio's, in seconds.
    """

    def __init__(self, *, stream: bool = True, progress: bool = True) -> None:
        self.fleeting = False
        self._stream = stream
        self._progress = progress
        self._pieces: list[str] = []
        self._chars = 0
        self._since = 0.0  # when the first of the pieces came
        self._anew = False  # the next words begin a new text
        self._tools: dict[int, _Tool] = {}
        self._done = 0
        self._opened = False  # something was shown
        self._lined = False  # the line was
        self._line_at = -math.inf

    # -- in ----------------------------------------------------------------------------------------------------------

    def say(self, text: str, now: float) -> None:
        """The model wrote more."""
        if not self._stream:
            return
        if self._anew or not self._pieces:
            self._pieces, self._chars = [], 0
            self._anew = False
            self._since = now
        self._pieces.append(text)
        self._chars += len(text)
        if self._chars > _UNREAD_MAX_CHARS:
            self._cut()

    def void(self) -> None:
        """The model's try failed: what it wrote does not count."""
        if not self._anew:
            self._pieces = []

    def tool_started(self, step: int, name: str, now: float) -> None:
        """A tool runs. What the model wrote before stays until it writes again."""
        self._anew = True
        self._tools[step] = _Tool(name if _PLAIN_NAME(name) else "a tool", now)
        self._line_at = -math.inf

    def tool_progress(self, step: int, text: str) -> bool:
        """A tool said how far it is. Returns whether that is news."""
        tool = self._tools.get(step)
        line = _as_data(text)
        if tool is None or line == tool.progress:
            return False
        tool.progress = line
        self._line_at = -math.inf
        return True

    def tool_finished(self, step: int) -> None:
        """A tool ended."""
        if self._tools.pop(step, None) is not None:
            self._done += 1
            self._line_at = -math.inf

    # -- out ---------------------------------------------------------------------------------------------------------

    def look(self, now: float) -> tuple[str, float]:
        """Return what is to be shown, empty for nothing yet, and when that changes by itself."""
        words, words_at = self._words(now)
        line, line_at = self._line(now, bool(words) and not self._anew)
        if words and line and len(_FENCE.findall(words)) % 2:
            words += "\n```"  # or the line would be part of the code
        shown = "\n\n".join(part for part in (words, line) if part)
        if not shown and self._opened:
            shown = NOTHING
        self._opened = self._opened or bool(shown)
        return shown, min(words_at, line_at)

    def _words(self, now: float) -> tuple[str, float]:
        text = self._cut().strip()
        if not text or self._opened or (self.fleeting and len(text) >= PREVIEW_FIRST_CHARS):
            return text, math.inf
        at = self._since + (PREVIEW_FIRST_S if self.fleeting else STATUS_AFTER_S)
        return (text, math.inf) if now >= at else ("", at)

    def _cut(self) -> str:
        """Join the pieces, and keep of a long text what is shown of it."""
        text = "".join(self._pieces)
        if len(text) > PREVIEW_MAX_CHARS:
            text = _end_of(text)
        self._pieces, self._chars = [text] if text else [], len(text)
        return text

    def _line(self, now: float, writing: bool) -> tuple[str, float]:
        """Return the line about tools. It is there once a tool took long, and goes when the model writes again."""
        if not self._progress:
            return "", math.inf
        tool = next(iter(self._tools.values()), None)
        if tool is None:
            return (f"✓ {_tools(self._done)} done", math.inf) if self._lined and not writing else ("", math.inf)
        if not self._lined and now < tool.started + STATUS_AFTER_S:
            return "", tool.started + STATUS_AFTER_S
        self._lined = True
        if now >= self._line_at + STATUS_TICK_S:
            self._line_at = now
            tool.seconds = int(now - tool.started)
        line = f"⏳ using {tool.name} … {duration(tool.seconds)}"
        if tool.progress:
            line += f" · `{tool.progress}`"
        if self._done:
            line += f" · {_tools(self._done)} done"
        return line, self._line_at + STATUS_TICK_S


def _end_of(text: str) -> str:
    """Return the last part of a long text, from the beginning of a line if there is one; open code stays open."""
    at = len(text) - PREVIEW_KEPT_CHARS
    line = text.find("\n", at, at + PREVIEW_KEPT_CHARS // 2)
    at = at if line < 0 else line + 1
    fence = "```\n" if len(_FENCE.findall(text[:at])) % 2 else ""
    return f"…\n\n{fence}{text[at:]}"


def _as_data(text: str) -> str:
    """Return a tool's words so that they fit between backticks on one line, where nothing in them is markup."""
    visible = "".join(char if char.isprintable() else " " for char in text[:PROGRESS_MAX_CHARS])
    return " ".join(visible.replace("`", "'").split())


def _tools(number: int) -> str:
    return f"{number} tool" if number == 1 else f"{number} tools"
