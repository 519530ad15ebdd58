"""How the extractor's regular expressions are written: lists of words as texts, so that people can read them."""

import re


def either(*lists: str) -> str:
    """Return a pattern for any of the phrases, which are divided by ", "; each is a pattern itself."""
    phrases = [phrase for text in lists for phrase in text.split(", ")]
    assert all(phrases), "an empty phrase matches everywhere"
    return f"(?:{'|'.join(phrases)})"


def words(*lists: str) -> frozenset[str]:
    """Return the words of texts."""
    return frozenset(word for text in lists for word in text.split())


def pattern(text: str) -> re.Pattern[str]:
    """Return a compiled pattern that does not look at case; `(?-i:[A-Z])` does."""
    return re.compile(text, re.IGNORECASE)
