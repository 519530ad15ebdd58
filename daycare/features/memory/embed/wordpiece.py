"""Cutting a text into the pieces of words that a BERT model knows, by its `vocab.txt`, as it was trained with them."""

import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

_WORD_MAX_CHARS: Final = 100  # a longer one is unknown as a whole
_KINDS_KEPT: Final = 4_096  # characters whose kind is remembered: more than those of one language, Chinese aside

_CLS, _SEP, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
SPECIAL: Final = (_CLS, _SEP, _UNKNOWN)  # what every vocabulary has


class WordPiece:
    """The numbers of a text's pieces. `vocabulary` maps a piece to its number; later pieces of a word begin with ##."""

    def __init__(self, vocabulary: Mapping[str, int], *, lower: bool, pieces_max: int) -> None:
        self._vocabulary = vocabulary
        self._lower = lower
        self._inner_max = pieces_max - 2
        self._begin, self._end, self._unknown = (vocabulary[name] for name in SPECIAL)

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces between those of its begin and end, at most `pieces_max` in all."""
        found = [self._begin]
        for word in _words(text, self._lower):
            found += self._pieces(word)
            if len(found) > self._inner_max:
                break
        return [*found[: self._inner_max + 1], self._end]

    def _pieces(self, word: str) -> list[int]:
        whole = self._vocabulary.get(word)
        if whole is not None:
            return [whole]
        if len(word) > _WORD_MAX_CHARS:
            return [self._unknown]
        found = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._vocabulary.get(mark + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def _words(text: str, lower: bool) -> Iterator[str]:
    """Yield the words of a text: what stands between blanks; punctuation and each Chinese character by itself."""
    word: list[str] = []
    for char in _lowered(text) if lower else text:
        kind = _kind(char)
        if kind == "letter":
            word.append(char)
        elif kind != "nothing":
            if word:
                yield "".join(word)
                word.clear()
            if kind == "alone":
                yield char
    if word:
        yield "".join(word)


def _lowered(text: str) -> str:
    """Return a text in lower case and without accents; a letter at a time, for models know no final sigma."""
    if text.isascii():
        return text.lower()
    return "".join(char.lower() for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn")


@lru_cache(_KINDS_KEPT)
def _kind(char: str) -> str:
    """Return what a character is to the model: part of a word, a word of its own, a blank, or nothing."""
    if char in " \t\n\r":
        return "blank"
    category = unicodedata.category(char)
    if char in "\0\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
        return "nothing"
    if char.isspace():
        return "blank"
    if category.startswith("P") or "!" <= char <= "/" or ":" <= char <= "@" or "[" <= char <= "`" or "{" <= char <= "~":
        return "alone"
    return "alone" if _chinese(ord(char)) else "letter"


def _chinese(code: int) -> bool:
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2CEAF
        or 0x2F800 <= code <= 0x2FA1F
    )
