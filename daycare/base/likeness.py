"""What somebody may have meant who wrote a name that there is not."""

from collections.abc import Iterable
from typing import Final

ALIKE: Final = 0.6  # of 1: a letter too many, or two that changed places


def nearest_name(name: str, known: Iterable[str], cutoff: float = ALIKE) -> list[str]:
    """Return the known name that is most like this one, as a list of none if none is like it."""
    from difflib import get_close_matches  # nobody needs it who makes no mistake

    return get_close_matches(name, list(known), n=1, cutoff=cutoff)
