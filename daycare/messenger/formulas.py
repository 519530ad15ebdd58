"""Formulas for people who see no typesetting: LaTeX as Unicode where there is a sign, and as readable words else."""

# ruff: noqa: RUF001 -- signs that look like others are what this is about

import re
import unicodedata
from collections.abc import Iterator
from html.entities import html5
from typing import Final

DEPTH_MAX: Final = 20  # of braces within braces; deeper they are left as they are

# HTML names its signs as LaTeX does, but for these.
_SIGNS: Final = {
    **{"cdot": "·", "cdots": "⋯", "circ": "∘", "dots": "…", "exists": "∃", "gets": "←", "iint": "∬", "iiint": "∭"},
    **{"implies": "⟹", "infty": "∞", "land": "∧", "ldots": "…", "lnot": "¬", "lor": "∨", "neg": "¬", "neq": "≠"},
    **{"partial": "∂", "star": "⋆", "to": "→", "vdots": "⋮", "ddots": "⋱", "degree": "°", "colon": ":", "vert": "|"},
    **{"lbrace": "{", "rbrace": "}", "langle": "⟨", "rangle": "⟩", "quad": "  ", "qquad": "    ", "backslash": "\\"},
    **{"longrightarrow": "⟶", "longleftarrow": "⟵", "iff": "⟺", "setminus": "∖", "bmod": "mod", "AA": "Å"},
}
_WORDS: Final = ("deg", "sup", "Pr")  # signs in HTML, words in LaTeX
_SILENT: Final = frozenset(
    ("left", "right", "middle", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "displaystyle", "textstyle", "limits")
)
_ACCENTS: Final = {
    **{"hat": "\u0302", "widehat": "\u0302", "bar": "\u0304", "overline": "\u0305", "underline": "\u0332"},
    **{"vec": "\u20d7", "dot": "\u0307", "ddot": "\u0308", "tilde": "\u0303", "widetilde": "\u0303"},
}
_LETTERS: Final = {"mathbb": "DOUBLE-STRUCK", "mathcal": "SCRIPT", "mathscr": "SCRIPT", "mathfrak": "FRAKTUR"}
_ROOTS: Final = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_TOKEN: Final = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|[{}^_&]|[^\\{}^_&]", re.DOTALL)


def _decomposed(kind: str) -> Iterator[tuple[str, str]]:
    """Yield what Unicode says that signs are made of, with the sign."""
    for code in (
        0xAA,
        0xB2,
        0xB3,
        0xB9,
        0xBA,
        *range(0xBC, 0xBF),
        *range(0x1D2C, 0x1DC0),
        *range(0x2070, 0x2190),
        0x2C7C,
    ):
        name, *parts = unicodedata.decomposition(chr(code)).split() or [""]
        if name == kind:
            yield "".join(chr(int(part, 16)) for part in parts), chr(code)


_RAISED: Final = {**dict(_decomposed("<super>")), "-": "⁻", "∘": "°", "*": "*", "′": "′"}
_LOWERED: Final = {**dict(_decomposed("<sub>")), "-": "₋"}
_FRACTIONS: Final = {made.replace("\u2044", "/"): sign for made, sign in _decomposed("<fraction>")}


def readable(formula: str) -> str:
    """Return a formula as text, lines for its lines. Never raises, and leaves out no word."""
    text = unicodedata.normalize("NFC", _Reader(formula).group(0, whole=True))  # letters with their accents
    return "\n".join(line.strip(" \t") for line in text.split("\n")).strip()


class _Reader:
    def __init__(self, formula: str) -> None:
        self._tokens = _TOKEN.findall(formula)
        self._at = 0

    def group(self, depth: int, *, whole: bool = False) -> str:
        """Read up to the brace that closes a group, or to the end."""
        found: list[str] = []
        while self._at < len(self._tokens):
            word = self._next()
            if word == "}" and not whole:
                break
            piece = self._piece(word, depth)
            # `2\frac{1}{2}` is no 21/2
            apart = found and found[-1][-1:].isdigit() and word in (r"\frac", r"\dfrac", r"\tfrac")
            found.append(f" {piece}" if apart else piece)
        return "".join(found)

    def _next(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _argument(self, depth: int) -> str:
        """Read what follows a command: a group or a single word."""
        while self._at < len(self._tokens) and self._tokens[self._at].isspace():
            self._at += 1
        if self._at == len(self._tokens) or self._tokens[self._at] == "}":
            return ""
        return self._piece(self._next(), depth).strip()

    def _option(self, depth: int) -> str:
        """Read `[...]` if it is there."""
        rest = self._tokens[self._at :]
        if rest[:1] != ["["] or "]" not in rest:
            return ""
        end = self._at + rest.index("]")
        inner, self._at = "".join(self._tokens[self._at + 1 : end]), end + 1
        return _Reader(inner).group(depth + 1, whole=True) if depth < DEPTH_MAX else inner

    def _piece(self, word: str, depth: int) -> str:
        if word == "{":
            return self.group(depth + 1) if depth < DEPTH_MAX else word
        if word == "^":
            return _moved(self._argument(depth), _RAISED, "^")
        if word == "_":
            return _moved(self._argument(depth), _LOWERED, "_")
        if word == "&" or word.startswith((r"\begin", r"\end")):
            return ""
        if word.startswith("\\"):
            return self._command(word[1:], depth) if word[1:2].isalpha() else _escaped(word[1:])
        return word

    def _command(self, name: str, depth: int) -> str:
        if name in ("frac", "dfrac", "tfrac"):
            return _fraction(self._argument(depth), self._argument(depth))
        if name in ("binom", "dbinom", "tbinom"):
            return f"C({self._argument(depth)}, {self._argument(depth)})"
        if name == "pmod":
            return f"(mod {self._argument(depth)})"
        if name == "sqrt":
            index, inner = self._option(depth).strip(), self._argument(depth)
            root = _ROOTS.get(index) or f"{_moved(index, _RAISED, '')}√"
            return root + (inner if len(inner) == 1 or inner.isdecimal() else f"({inner})")
        if name in _ACCENTS:
            inner = self._argument(depth)
            return "".join(char + _ACCENTS[name] for char in inner) if len(inner) < 3 else f"{name}({inner})"
        if name in _LETTERS:
            return "".join(_letter(char, _LETTERS[name]) for char in self._argument(depth))
        if name == "not":
            return f"{self._argument(depth)}\u0338"
        if name in _SILENT:
            return ""
        if name in _SIGNS:
            return _SIGNS[name]
        if name in _WORDS:
            return name + self._gap()
        sign = html5.get(f"{name};", "")
        if sign:
            return sign
        braced = self._at < len(self._tokens) and self._tokens[self._at] == "{"
        return self._argument(depth) if braced else name + self._gap()  # `\text{if}` is its words, `\sin x` its name

    def _gap(self) -> str:
        """Return what keeps a word apart from the next one."""
        after = self._tokens[self._at][:1] if self._at < len(self._tokens) else ""
        return " " if after.isalnum() or after == "\\" else ""


def _escaped(sign: str) -> str:
    return {"\\": "\n", ",": " ", ";": " ", ":": " ", " ": " ", "!": "", "|": "‖"}.get(sign, sign)


def _moved(text: str, table: dict[str, str], sign: str) -> str:
    """Write a text above or below the line; where not all of it has such a form, after its sign."""
    if all(char in table for char in text):
        return "".join(table[char] for char in text)
    return f"{sign}{text}" if len(text) == 1 else f"{sign}({text})"


def _fraction(above: str, below: str) -> str:
    def whole(text: str) -> str:
        return text if all(char.isalnum() or unicodedata.combining(char) for char in text) else f"({text})"

    return _FRACTIONS.get(f"{above}/{below}") or f"{whole(above)}/{whole(below)}"


def _letter(char: str, family: str) -> str:
    case = "CAPITAL" if char.isupper() else "SMALL"
    what = f"{family} {case} {char.upper()}"
    for name in (f"MATHEMATICAL {what}", what, f"BLACK-LETTER CAPITAL {char.upper()}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return char
