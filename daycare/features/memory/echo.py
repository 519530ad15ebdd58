"""Whether a text is an echo: what was just read out of memory, about to be put into it once more.

Measured in shingles, all runs of `SHINGLE_CHARS` characters of a text without case, marks and blanks: of a text of at
least `ECHO_MIN_CHARS` such characters, the share of different shingles that what was recalled has, too. Moved, reworded
here and there or put into another frame, a text keeps most of them; two texts about the same thing share few. An
agent's own answer may be as short as it likes, and put a few words around each thing that it repeats.
"""

import re
from collections.abc import Iterable
from typing import Final

SHINGLE_CHARS: Final = 12  # two or three words of a European language, a clause of Chinese
ECHO_MIN_CHARS: Final = 200  # below it a fact that is said again is no echo
ECHO_SHARE: Final = 0.8
FRAME_MAX_CHARS: Final = 32  # around what is quoted: you told me on 3 March 2026 that

_BETWEEN: Final = re.compile(r"[\W_]+")


def is_echo(text: str, recalled: Iterable[str]) -> bool:
    """Return whether a text is substantially what was recalled."""
    plain = _plain(text)
    if len(plain) < ECHO_MIN_CHARS:
        return False
    left = _shingles(plain)
    missing_max = len(left) * (1 - ECHO_SHARE)
    for other in recalled:
        left -= _shingles(_plain(other))
        if len(left) <= missing_max:
            return True
    return False


def repeats(answer: str, remembered: Iterable[str]) -> bool:
    """Return whether an answer says nothing but what is remembered."""
    own = _shingles(_plain(answer))
    left = set(own)
    quoted = 0
    for other in remembered:
        theirs = _shingles(_plain(other))
        left -= theirs
        quoted += len(theirs & own) >= max(1, ECHO_SHARE * len(theirs))
    return bool(own) and len(left) <= max(len(own) * (1 - ECHO_SHARE), quoted * FRAME_MAX_CHARS)


def _plain(text: str) -> str:
    return _BETWEEN.sub("", text).casefold()


def _shingles(plain: str) -> set[str]:
    return {plain[at : at + SHINGLE_CHARS] for at in range(len(plain) - SHINGLE_CHARS + 1)}
