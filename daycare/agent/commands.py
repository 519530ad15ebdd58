"""The chat commands, one registry for every place people talk from: terminal, messengers, web."""

import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from daycare.actors.lifecycle import Activation
from daycare.base.errors import ForbiddenError
from daycare.base.likeness import nearest_name
from daycare.base.messages import Choice, File, Origin
from daycare.store.records import Agent, InboxRow, Shows, User
from daycare.store.sqlite.people import PeopleStore

WORD: Final = re.compile(r"[a-z][a-z_]{0,31}")  # what every messenger takes as a command
_COMMAND: Final = re.compile(rf"/({WORD.pattern})(?:@\w{{1,64}})?(?=\s|$)")
_SPOKEN: Final = re.compile(r"(?:/|slash[,.]?)\s*([a-z]+)(?![a-z])[,.:!?]?(.*)", re.IGNORECASE | re.DOTALL)
_STOPS: Final = ".,:;!?\u2026 "
MENU: Final[tuple[str, ...]] = (
    "new",
    "stop",
    "status",
    "trace",
    "agents",
    "build",
    "model",
    "use",
    "context",
    "compact",
    "memory",
    "cron",
    "task",
    "spend",
    "budget",
    "approvals",
    "voice",
    "whoami",
    "help",
)
# What no plugin may take; the last two are the terminal's own.
BUILT_IN: Final = frozenset(
    (
        *MENU,
        "start",
        "reset",
        "cancel",
        "approve",
        "reject",
        "answer",
        "dismiss",
        "edit",
        "undo",
        "retry",
        "pair",
        "quit",
        "exit",
    )
)


class CommandAnswer(NamedTuple):
    """What a command says, whether it ends the running turn, and why a new session begins, if it does.

    `choices` and `files` come with it; `shows` is the request for approval that it shows.
    """

    text: str
    stops: bool = False
    new_session: str = ""
    choices: tuple[Choice, ...] = ()
    files: tuple[File, ...] = ()
    shows: Shows | None = None


class Command(NamedTuple):
    """A chat command: what it does in a few words, and how. `run` gets what stands behind the command's word.

    A `hidden` one is in no menu. One that `waits` is obeyed between two turns only, any other also beside a running
    one. After a crash it may run again.
    """

    help: str
    run: Callable[[Agent, Activation, InboxRow, str], Awaitable[CommandAnswer]]
    hidden: bool = False
    waits: bool = False


def is_command(text: str) -> bool:
    """Return whether a message is a command: a slash and one plain word, so that a path is none."""
    return _COMMAND.match(text) is not None


def as_typed(words: str, known: Callable[[str], bool]) -> str:
    """Return words that were heard as they would have been typed: "Slash new." is `/new`, where that is `known`.

    What follows a command's word keeps its stops.
    """
    match = _SPOKEN.fullmatch(words.strip())
    if match is None or not known(word := match[1].lower()):
        return words
    rest = match[2].strip()
    return f"/{word} {rest}" if rest.strip(_STOPS) else f"/{word}"


async def who_asks(people: PeopleStore, row: InboxRow) -> User | None:
    """Return the person who typed a command: in a group one of many, and perhaps nobody we know.

    An anonymous administrator and a channel write in the name of a group, which anybody may be behind: that is nobody.
    """
    if row.envelope.origin not in (Origin.PERSON, Origin.GROUP):
        return None
    user = await people.by_key(row.envelope.sender)
    return user if user is not None and user.kind != "group" else None


async def check_manager(people: PeopleStore, row: InboxRow, agent: Agent, who: str) -> None:
    """Raise `ForbiddenError` OTHER_USER unless who typed a command may change what an agent's user has.

    People may for themselves and nobody does it for them; for groups and for the daemon itself operators may.
    """
    asker, user = await who_asks(people, row), await people.get(agent.user)
    is_person = user is not None and user.kind == "person"
    if asker is None or not (asker.id == agent.user if is_person else asker.operator):
        raise ForbiddenError("OTHER_USER", f"Only the person {who}, for a group the operator.")


class Commands:
    """Runs commands by name; plugins and later parts add theirs with `add`."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        self.add("help", Command("show what can be said here", self._help))
        self.add("stop", Command("stop what I am doing", _stop, waits=True))
        self.add("cancel", Command("the same as /stop", _stop, hidden=True, waits=True))
        self.add("new", Command("start a new conversation; the old one is kept", _new, waits=True))
        self.add("reset", Command("the same as /new", _new, hidden=True, waits=True))
        self.add("whoami", Command("show who you are to me", _whoami))

    def add(self, name: str, command: Command) -> None:
        """Register a command under its word, without the slash."""
        self._commands[name] = command

    def remove(self, name: str) -> None:
        """Forget a command."""
        self._commands.pop(name, None)

    def has(self, name: str) -> bool:
        """Return whether a word is a command."""
        return name in self._commands

    def listed(self) -> list[tuple[str, str]]:
        """Return (word, help) of what belongs into a menu: ours first, what is needed most on top, then plugins'."""
        names = [name for name in MENU if name in self._commands]
        names += sorted(self._commands.keys() - set(names))
        return [(name, self._commands[name].help) for name in names if not self._commands[name].hidden]

    async def run(self, agent: Agent, lane: Activation, row: InboxRow) -> CommandAnswer:
        """Carry out the command of a control message; an unknown one is answered, never swallowed."""
        text = row.envelope.text
        match = _COMMAND.match(text)
        command = self._commands.get(match[1]) if match else None
        if match is None or command is None:
            return CommandAnswer(self._unknown(match[1] if match else ""))
        return await command.run(agent, lane, row, text[match.end() :].strip())

    def may_overtake(self, text: str) -> bool:
        """Return whether a message is a command that can be obeyed beside a running turn, or one that nobody knows."""
        match = _COMMAND.match(text)
        command = self._commands.get(match[1]) if match else None
        return command is None or not command.waits

    def _unknown(self, word: str) -> str:
        near = nearest_name(word, [name for name, _ in self.listed()], cutoff=0.65) if word else []
        meant = f"Did you mean /{near[0]}? " if near else ""
        return f"I do not know {f'/{word}' if word else 'that'}. {meant}/help shows what I know."

    async def _help(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        return CommandAnswer("\n".join(f"/{name} - {help_}" for name, help_ in self.listed()))


async def _stop(agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
    if lane.means_another(rest) and lane.stopped_at != row.seq:
        return CommandAnswer("That is over already.")
    if (lane.turn is None or lane.begun) and not lane.aside and lane.stopped_at != row.seq:
        return CommandAnswer("Nothing is running.", stops=True)  # perhaps a crash came between two parts of stopping
    return CommandAnswer("Stopped.", stops=True)


async def _new(agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
    return CommandAnswer("A new conversation begins. The old one is kept.", stops=True, new_session="reset")


async def _whoami(agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
    return CommandAnswer(
        f"You are {agent.user}, writing as {row.envelope.sender} to {agent.path} (session {agent.session})."
    )
