"""What a group said before it addressed the bot: the last few messages, which come along as context."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from daycare.base.bounded import Bounded
from daycare.base.connector import Inbound
from daycare.messenger.text import cut, one_line, quoted
from daycare_plugins.telegram.reading import ReadUpdate

CHATS_MAX: Final = 200
LINE_MAX_CHARS: Final = 300
LINES_MAX_CHARS: Final = 1_800  # with what the message itself refers to, less than a message's context may have

_Lines = tuple[str, ...]


class Overheard:
    """The last `most` messages of each group that were not for us; 0 keeps none. In memory only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._chats: Bounded[str, _Lines] = Bounded(CHATS_MAX)

    def told(self, reads: Sequence[ReadUpdate]) -> tuple[list[ReadUpdate], Mapping[str, _Lines]]:
        """Return a batch whose messages have what was said before them, and what to `keep` once it is committed."""
        found: list[ReadUpdate] = []
        now: dict[str, _Lines] = {}
        for one in reads:
            item, passed_by = one.item, one.overheard
            if passed_by is not None and self._most:
                lines = (*now.get(passed_by.chat, self._chats.get(passed_by.chat, ())), _line(passed_by))
                now[passed_by.chat] = lines[-self._most :]
            elif isinstance(item, Inbound) and _is_addressed(item):
                lines = now.get(item.chat, self._chats.get(item.chat, ()))
                if lines:
                    one = replace(one, item=replace(item, context=f"{item.context}\n{_shown(lines)}".strip()))
                    now[item.chat] = ()
            found.append(one)
        return found, now

    def keep(self, chats: Mapping[str, _Lines]) -> None:
        """Remember what was said since, and forget what was told."""
        for chat, lines in chats.items():
            self._chats.pop(chat, None)
            if lines:
                self._chats[chat] = lines


def _is_addressed(item: Inbound) -> bool:
    return bool(item.chat) and item.kind == "message" and not item.edits and not item.text.startswith("/")


def _line(item: Inbound) -> str:
    words = one_line(item.text, LINE_MAX_CHARS) or ("[a file]" if item.files else "[something without words]")
    return f"{one_line(item.name, 40) or 'somebody'}: {words}"


def _shown(lines: _Lines) -> str:
    shown: list[str] = []
    for line in reversed(lines):  # the newest say most
        if sum(map(len, shown)) + len(line) > LINES_MAX_CHARS:
            break
        shown.insert(0, line)
    return f"said in the group before, to others:\n{quoted(cut(chr(10).join(shown), LINES_MAX_CHARS), LINES_MAX_CHARS)}"
