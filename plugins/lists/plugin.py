"""A list that people and agents write on: `daycare agents create /ann/app/shopping --behaviour list`."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from daycare.plugin import BehaviourContext, BehaviourMessage, Plugin

ENTRIES_MAX: Final = 300  # of one list: more is no list that anybody looks through
ENTRY_MAX_CHARS: Final = 100  # a line on a phone; all of them fit into what an app may keep
_HELP: Final = "milk, eggs: put them on the list. done milk: take it off. list: show it. clear: empty it."
_WORD: Final = re.compile(r"(add|done|list|show|clear|help)\b:?\s*(.*)", re.IGNORECASE | re.DOTALL)
_BETWEEN: Final = re.compile(r"[,;\n]")


class ListApp:
    """Keeps a list. Its state is the entries, in the order in which they came."""

    name = "list"
    description = "Keeps a list, such as shopping or errands; send it: milk, eggs / done milk / list / clear"

    async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> str | None:
        """Answer each message with a line, and the list where somebody wants to see it."""
        entries: list[str] = context.state or []
        lines = [self._answer(entries, message.text.strip()) for message in messages if message.sort == "message"]
        context.state = entries
        return "\n".join(lines) or None

    def _answer(self, entries: list[str], text: str) -> str:
        word = _WORD.match(text)
        command, rest = (word[1].lower(), word[2]) if word else ("add", text)
        if command in ("list", "show") or text == "?":
            return "\n".join(f"- {entry}" for entry in entries) or "The list is empty."
        if command == "add" and rest.strip():
            return self._add(entries, _named(rest))
        if command == "done":
            return self._take_off(entries, _named(rest))
        if command == "clear":
            many = len(entries)
            entries.clear()
            return f"Taken off: all {many}."
        return _HELP

    def _add(self, entries: list[str], named: Sequence[str]) -> str:
        known = {entry.casefold() for entry in entries}
        new = [entry for entry in named if entry.casefold() not in known]
        room = ENTRIES_MAX - len(entries)
        entries += new[:room]
        said = f"On the list: {', '.join(new[:room])}." if new[:room] else "That is on the list."
        return said if len(new) <= room else f"{said} It is full: {', '.join(new[room:])} did not fit."

    def _take_off(self, entries: list[str], named: Sequence[str]) -> str:
        wanted = {entry.casefold() for entry in named}
        gone = [entry for entry in entries if entry.casefold() in wanted]
        entries[:] = [entry for entry in entries if entry.casefold() not in wanted]
        missing = wanted - {entry.casefold() for entry in gone}
        lines = [f"Taken off: {', '.join(gone)}."] if gone else []
        if missing or not wanted:
            lines.append(f"Not on the list: {', '.join(sorted(missing)) or 'nothing was named'}.")
        return " ".join(lines)


def _named(text: str) -> list[str]:
    """Return the entries that a text names, each once."""
    found: Iterable[str] = (" ".join(part.split()).strip("-* ")[:ENTRY_MAX_CHARS] for part in _BETWEEN.split(text))
    return list({entry.casefold(): entry for entry in found if entry}.values())


plugin = Plugin(name="lists", description="Lists that people and agents write on", behaviours=[ListApp()])
