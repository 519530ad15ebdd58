"""What the roster tells."""

from typing import NamedTuple

import msgspec


class Branch(NamedTuple):
    """A path in the tree, and how many living agents are below it that do not stand there themselves."""

    path: str
    below: int = 0


class RunningTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent works on: its turn, since when (wall ms), and the beginning of the message that it answers."""

    turn: int
    since: int
    text: str


class ToolRight(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, whether an agent may use it (allow, ask or deny), and because of what."""

    name: str
    description: str
    decision: str
    reason: str


class NamedChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Something to choose by its name."""

    name: str
    description: str
