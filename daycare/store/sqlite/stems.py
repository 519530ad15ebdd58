"""Words as the indexes of words have them: stems, which several forms of a word share."""

from collections.abc import Callable, Sequence
from typing import Final, cast

import apsw

STEM_MAX_CHARS: Final = 64  # of a word in the index, so that encoded data does not fill it; never change it


def stemmer(db: apsw.Connection) -> Callable[[str], list[str]]:
    """Return what makes stems of a text. It must not change: what is in the index is deleted by its words."""
    tokenizer = db.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])

    def stems(text: str) -> list[str]:
        with_nothing_else = {"include_offsets": False, "include_colocated": False}
        found = cast(list[str], tokenizer(text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, **with_nothing_else))
        if max(map(len, found), default=0) <= STEM_MAX_CHARS:
            return found
        return [stem[:STEM_MAX_CHARS] for stem in found]

    return stems


def stems_of(db: apsw.Connection, words: Sequence[str]) -> list[list[str]]:
    """Return the stems of each of some words."""
    stems, text = stemmer(db), " ".join(words)
    if text.isascii() and all(map(str.isalnum, words)):  # each is one word to the index as well: one call for all
        found = stems(text)
        if len(found) == len(words):
            return [[stem] for stem in found]
    return [*map(stems, words)]
