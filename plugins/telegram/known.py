"""What was seen lately, bounded: keys of messages, and the newest message of each chat."""

from typing import Final

from daycare.base.bounded import Bounded

KEYS_MAX: Final = 10_000  # messages of groups whose edits and reactions are understood: some MB
CHATS_MAX: Final = 10_000


class Known:
    """Keys that were passed on or sent; the oldest are forgotten."""

    def __init__(self) -> None:
        self._keys: Bounded[str, None] = Bounded(KEYS_MAX)

    def __call__(self, key: str) -> bool:
        """Whether it is remembered."""
        return key in self._keys

    def add(self, key: str) -> None:
        """Remember one."""
        self._keys[key] = None


class Newest:
    """The newest message that each chat has sent us."""

    def __init__(self) -> None:
        self._messages: Bounded[int, str] = Bounded(CHATS_MAX)

    def heard(self, chat: int, message: str) -> None:
        """Remember one."""
        self._messages[chat] = message

    def is_newest(self, chat: int, message: str) -> bool:
        """Whether nothing was said after it, as far as is known."""
        return self._messages.get(chat, message) == message
