"""What was seen lately, bounded: keys of messages, and the newest message of each chat."""

from collections import OrderedDict
from typing import Final

KEYS_MAX: Final = 10_000  # messages of groups whose edits and reactions are understood: some MB
CHATS_MAX: Final = 10_000


class Known:
    """Keys that were passed on or sent; the oldest are forgotten."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, None] = OrderedDict()

    def __call__(self, key: str) -> bool:
        """Whether it is remembered."""
        return key in self._keys

    def add(self, key: str) -> None:
        """Remember one."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        if len(self._keys) > KEYS_MAX:
            self._keys.popitem(last=False)


class Newest:
    """The newest message that each chat has sent us."""

    def __init__(self) -> None:
        self._messages: OrderedDict[int, str] = OrderedDict()

    def heard(self, chat: int, message: str) -> None:
        """Remember one."""
        self._messages[chat] = message
        self._messages.move_to_end(chat)
        if len(self._messages) > CHATS_MAX:
            self._messages.popitem(last=False)

    def is_newest(self, chat: int, message: str) -> bool:
        """Whether nothing was said after it, as far as is known."""
        return self._messages.get(chat, message) == message
