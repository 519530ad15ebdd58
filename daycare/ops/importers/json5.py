"""JSON5, as people write settings: comments, names and strings without double quotes, commas at the end."""

import re
from typing import Any, Final

_DEPTH_MAX: Final = 64
_SPACE: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*")
_NUMBER: Final = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w$])"
)
_WORDS: Final = {"true": True, "false": False, "null": None}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_PLAIN: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}


def loads(text: str) -> Any:
    """Return what a text says. Raises `ValueError` that tells the line."""
    reader = _Reader(text)
    try:
        value = reader.value(0)
    except IndexError:
        raise reader.wrong("it ends too early") from None
    reader.skip()
    if reader.at < len(text):
        raise reader.wrong("something stands behind its end")
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def wrong(self, what: str) -> ValueError:
        return ValueError(f"line {self.text.count(chr(10), 0, self.at) + 1}: {what}")

    def skip(self) -> None:
        if found := _SPACE.match(self.text, self.at):
            self.at = found.end()

    def next(self) -> str:
        """Return the next character that counts, without passing it."""
        self.skip()
        return self.text[self.at]

    def value(self, depth: int) -> Any:
        if depth > _DEPTH_MAX:
            raise self.wrong("it is nested too deeply")
        first = self.next()
        if first == "{":
            return self.table(depth)
        if first == "[":
            return self.list(depth)
        if first in _PLAIN:
            return self.string(first)
        if found := _NUMBER.match(self.text, self.at):
            self.at = found.end()
            return _number(found[0])
        if (found := _NAME.match(self.text, self.at)) and found[0] in _WORDS:
            self.at = found.end()
            return _WORDS[found[0]]
        raise self.wrong("expected a value")

    def table(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        while self.next() != "}":
            name = self.string(self.next()) if self.next() in _PLAIN else self.name()
            if self.next() != ":":
                raise self.wrong("expected a colon")
            self.at += 1
            found[name] = self.value(depth + 1)
            self.comma("}")
        self.at += 1
        return found

    def list(self, depth: int) -> list[Any]:
        found = []
        self.at += 1
        while self.next() != "]":
            found.append(self.value(depth + 1))
            self.comma("]")
        self.at += 1
        return found

    def comma(self, end: str) -> None:
        if self.next() == ",":
            self.at += 1
        elif self.next() != end:
            raise self.wrong(f"expected a comma or {end}")

    def name(self) -> str:
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise self.wrong("expected a name")
        self.at = found.end()
        return found[0]

    def string(self, quote: str) -> str:
        parts = []
        self.at += 1
        while True:
            found = _PLAIN[quote].match(self.text, self.at)
            assert found is not None
            parts.append(found[0])
            self.at = found.end()
            mark = self.text[self.at]
            self.at += 1
            if mark == quote:
                return "".join(parts)
            parts.append(self.escaped())

    def escaped(self) -> str:
        mark = self.text[self.at]
        self.at += 1
        digits = {"x": 2, "u": 4}.get(mark)
        if digits is None:
            return _ESCAPES.get(mark, mark)
        code = self.text[self.at : self.at + digits]
        self.at += digits
        try:
            return chr(int(code, 16))
        except ValueError:
            raise self.wrong("half an escape") from None


def _number(text: str) -> int | float:
    sign = -1 if text[0] == "-" else 1
    bare = text.lstrip("+-")
    if bare[:2].lower() == "0x":
        return sign * int(bare, 16)
    if bare.isdecimal() and len(bare) < 20:
        return sign * int(bare)
    return sign * float(bare.replace("Infinity", "inf").replace("NaN", "nan"))
