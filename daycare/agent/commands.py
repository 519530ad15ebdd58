"""The chat commands, one registry for every place people talk from: terminal, messengers, web."""

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from daycare.actors.lifecycle import Activation
from daycare.store.records import Agent, InboxRow

_COMMAND = re.compile(r"/([a-z][a-z_]{0,31})(?:@\w{1,64})?(?=\s|$)")


class Answer(NamedTuple):
    """What a command says, whether it ends the running turn, and why a new session begins, if it does."""

    text: str
    stops: bool = False
    new_session: str = ""


class Command(NamedTuple):
    """A chat command: what it does in a few words, and how. `run` gets what stands behind the command's word."""

    help: str
    run: Callable[[Agent, Activation, InboxRow, str], Awaitable[Answer]]


def is_command(text: str) -> bool:
    """Return whether a message is a command: a slash and one plain word, so that a path is none."""
    return _COMMAND.match(text) is not None


class Commands:
    """Runs commands by name; plugins and later parts add theirs with `add`."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        self.add("help", Command("show what can be said here", self._help))
        self.add("stop", Command("stop what I am doing", _stop))
        self.add("reset", Command("start a new conversation; the old one is kept", _reset))
        self.add("new", Command("the same as /reset", _reset))
        self.add("whoami", Command("show who you are to me", _whoami))

    def add(self, name: str, command: Command) -> None:
        """Register a command under its word, without the slash."""
        self._commands[name] = command

    def listed(self) -> list[tuple[str, str]]:
        """Return (word, help) of every command, for menus."""
        return [(name, command.help) for name, command in sorted(self._commands.items())]

    async def run(self, agent: Agent, lane: Activation, row: InboxRow) -> Answer:
        """Carry out the command of a control message; an unknown one is answered, never swallowed."""
        text = row.envelope.text
        match = _COMMAND.match(text)
        command = self._commands.get(match[1]) if match else None
        if match is None or command is None:
            return Answer(f"I do not know {text.split(maxsplit=1)[0] if text else 'that'}. /help shows what I know.")
        return await command.run(agent, lane, row, text[match.end() :].strip())

    async def _help(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
        return Answer("\n".join(f"/{name} - {help_}" for name, help_ in self.listed()))


async def _stop(agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
    if (lane.turn is None or lane.begun) and not lane.aside and lane.stopped_at != row.seq:
        return Answer("Nothing is running.", stops=True)  # perhaps a crash came between two parts of stopping
    return Answer("Stopped.", stops=True)


async def _reset(agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
    return Answer("A new conversation begins. The old one is kept.", stops=True, new_session="reset")


async def _whoami(agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
    return Answer(f"You are {agent.user}, writing as {row.envelope.sender} to {agent.path} (session {agent.session}).")
