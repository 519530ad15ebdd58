"""English for what people are told."""


def plural(word: str, count: int) -> str:
    """Return an English noun for so many of a thing: `1 memory`, `9 memories`."""
    if count == 1:
        return word
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "ch", "sh")) else f"{word}s"
