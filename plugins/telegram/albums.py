"""Albums: their parts come as updates of their own, right after each other, and belong into one commit."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

PARTS_MAX: Final = 10  # of an album
QUIET_S: Final = 0.7  # parts follow each other within some tenths of a second
ROUNDS_MAX: Final = 6  # of waiting for more: an album does not grow for longer
_TAIL: Final = 20  # updates of other chats that may stand between two parts

Update = Mapping[str, Any]


def growing(updates: Sequence[Update]) -> dict[str, int]:
    """Return the number of parts of each album that may not be complete."""
    return {album: len(where) for album, where in _albums(updates).items() if len(where) < PARTS_MAX}


def before_open_end(updates: Sequence[Update]) -> int:
    """Return how many updates of a full answer to take, so that no album at its end is torn.

    What is left over comes again with the next answer. An album that begins the answer is not left over.
    """
    edge = len(updates) - _TAIL
    torn = [where[0] for where in _albums(updates).values() if len(where) < PARTS_MAX and where[-1] >= edge]
    return min((first for first in torn if first > 0), default=len(updates))


def _albums(updates: Sequence[Update]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, update in enumerate(updates):
        for kind in ("message", "channel_post"):
            message = update.get(kind) if isinstance(update, Mapping) else None
            album = message.get("media_group_id") if isinstance(message, Mapping) else None
            if isinstance(album, str) and album:
                found.setdefault(album, []).append(at)
    return found
