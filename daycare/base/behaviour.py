"""The contract of behaviours: programs whose turns are code instead of a model's, as agents like any other."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import Choice, File, Origin

Sort = Literal["message", "reminder", "notice"]


class BehaviourMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Something that came for an agent with a behaviour: bare words, and who said them.

    `sort` is `reminder` for what the agent set itself and `notice` for what expects no answer, such as that another
    agent has failed; `signal` is the name of one it had subscribed to. `sender` is a path, or a person's address
    (`telegram:42`); `origin` says what that is. `number` is the same in each try.
    """

    number: int
    sort: Sort
    signal: str = ""
    text: str
    sender: str
    origin: Origin
    at_ms: int
    files: tuple[File, ...] = ()


class BehaviourContext(Protocol):
    """What a behaviour may do and know in a turn. All of it is committed with the turn's reply, together or not at all.

    `state` is what the agent keeps from turn to turn: any JSON value of up to 64 KiB, None before the first turn. It
    may be changed in place or replaced.
    """

    path: str
    user: str
    zone: str
    now_ms: int
    trace: str
    turn: int
    state: Any

    async def send(self, to: str, text: str) -> None:
        """Send `text` to the agent at `to` when the turn commits. Raises if it may not, or there is no such agent."""
        ...

    def remind(self, after_s: float, text: str) -> int:
        """Have `text` come back as a message after so many seconds; return the due wall time in ms."""
        ...

    def offer(self, choices: Sequence[Choice]) -> None:
        """Let the reply come with answers to choose from."""
        ...

    async def read(self, file_id: int, offset: int = 0, length: int = FILE_MAX_BYTES) -> tuple[File, bytes]:
        """Return a file of this user, such as one that came with a message, and bytes of it.

        Raises `NotFoundError`; past its end there are none.
        """
        ...

    async def write(self, name: str, media_type: str, data: bytes) -> File:
        """Keep a file of this user, to be attached or read later. A repeat in another try finds the first."""
        ...

    async def attach(self, file_id: int) -> File:
        """Let the reply come with a file of this user. Raises `NotFoundError`, `InvalidError` past 10 files."""
        ...

    async def agents(self) -> list[tuple[str, str]]:
        """Return (path, description) of the user's living agents, this one included."""
        ...


class Behaviour(Protocol):
    """What an app does. One object serves all apps of this behaviour: what an app keeps is in `context.state`.

    `name` is unique among all plugins; `description` says in a line what such an app is for: people read it, and the
    models of the user's other agents.
    """

    name: str
    description: str

    async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> str | None:
        """Take a turn: handle these messages and return the reply, None for silence. It has 120 s.

        After a crash, and when it raises, it is called again with the same messages and with what was committed last,
        so whatever it does outside of `context` may happen twice. It raises for what may pass: five tries in all are
        made before the messages become dead letters. What cannot be done at all is better said in the reply.
        """
        ...
