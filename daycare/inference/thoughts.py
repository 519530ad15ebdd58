"""Thoughts that a model writes into its text as `<think>...</think>`: they are no words to anybody, and are left out.

A block is left out wherever it is closed. One that is not closed ends the text if it began at the start of a line; in
the midst of one the tag is a word like others. In code, between backticks, nothing is left out. A tag may be cut by the
pieces of a stream in any way.
"""

import re
from typing import Final

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"
# A server that puts the opening tag into the prompt sends the closing one alone, on a line of its own.
_CLOSED_ONLY: Final = re.compile(r"\A(?:(?!<think>|```).)*?^</think>[ \t]*$\s*", re.DOTALL | re.MULTILINE)


class Spoken:
    """Lets the words of a text through, piece by piece. `end` returns what was held back and turned out to be words."""

    def __init__(self) -> None:
        self._rest = ""  # a tag perhaps, or the thought that has begun
        self._thinks = False
        self._inline = False  # the thought began in the midst of a line
        self._trims = False  # space after a thought that stood where a line begins
        self._line = ""  # the words of the last line so far
        self._fenced = False

    def feed(self, piece: str) -> str:
        """Return the words that are sure after this piece."""
        self._rest += piece
        said: list[str] = []
        while True:
            tag = _CLOSE if self._thinks else _OPEN
            before, found, after = self._rest.partition(tag)
            if self._thinks:
                if not found:
                    return "".join(said)
                self._thinks, self._trims, self._rest = False, not self._inline, after
            elif found:
                said.append(self._say(before))
                self._rest = after
                if self._fenced or self._line.count("`") % 2:
                    said.append(self._say(tag))
                else:
                    self._thinks, self._inline = True, bool(self._line.strip())
            else:
                held = next((n for n in range(len(tag) - 1, 0, -1) if before.endswith(tag[:n])), 0)
                self._rest = before[len(before) - held :]
                said.append(self._say(before[: len(before) - held]))
                return "".join(said)

    def end(self) -> str:
        """Return the words that were held back; nothing is fed after that."""
        rest, self._rest = self._rest, ""
        if self._thinks:
            return self._say(_OPEN + rest) if self._inline else ""
        return self._say(rest)

    def _say(self, words: str) -> str:
        if self._trims:
            words = words.lstrip()
            self._trims = not words
        *lines, last = words.split("\n")
        for line in lines:
            self._fenced ^= (self._line + line).lstrip().startswith("```")
            self._line = ""
        self._line += last
        return words


def spoken(text: str) -> str:
    """Return the words of a whole text."""
    if "think>" not in text:
        return text
    filtering = Spoken()
    text = filtering.feed(text) + filtering.end()
    return _CLOSED_ONLY.sub("", text, count=1) if _CLOSE in text else text
