"""The contract of tools: what a model can do, and what a running tool may do and know."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, Protocol, TypedDict, TypeVar

import msgspec

from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.memory import Memory
from daycare.base.messages import Chains, Choice, File, Origin, Origins

A = TypeVar("A", bound=msgspec.Struct)


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as a model sees it, and what it can do at worst. `schema` is a JSON Schema of an object, kept as it is.

    Tools of one `group` are shown to a model when it asks for that group; those without one always are.
    `reads_private`: its result may hold what its person would tell nobody else. `reads_outside`: its result may be
    others' words. `changes_outside`: it acts beyond the agent's own conversation. No agent does all three unasked; a
    tool that says nothing does each.
    """

    name: str
    description: str
    schema: dict[str, Any]
    group: str = ""
    reads_private: bool = True
    reads_outside: bool = True
    changes_outside: bool = True


class ToolReach(TypedDict):
    """What a tool reads and changes, as keywords of a `StructTool`."""

    reads_private: bool
    reads_outside: bool
    changes_outside: bool


STAYS: Final[ToolReach] = {"reads_private": False, "reads_outside": False, "changes_outside": False}
READS: Final[ToolReach] = {"reads_private": True, "reads_outside": False, "changes_outside": False}
ACTS: Final[ToolReach] = {"reads_private": False, "reads_outside": False, "changes_outside": True}


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A call's result comes later, as a message: the turn is set aside until then, and nothing waits in memory.

    `key` names the call for the answer; past the deadline (seconds) the model reads that none came.
    """

    key: str
    deadline_s: float


class Sourced(msgspec.Struct, frozen=True):
    """A result that tells where the words of others in it came from. Only the daemon's own tools are believed that."""

    text: str
    origins: Origins


class ToolContext(Protocol):
    """What a running tool may do and know. Messages it sends are committed with the turn, not before."""

    path: str
    user: str
    zone: str
    now_ms: int
    trace: str
    turn: int
    step: int
    call_id: str
    chains: Chains  # how the turn came about, this agent the last of both
    allowed: tuple[str, ...]  # the tools it may use

    @property
    def memory(self) -> Memory:
        """The agent's documents: to read, and to propose changes of."""
        ...

    async def origins(self) -> tuple[Origin, ...]:
        """Return where the words of others came from that this call may pass on: those its agent has read before it.

        Empty where a person has approved of this very call. All that the call sends carries them.
        """
        ...

    async def send(self, to: str, text: str) -> None:
        """Send `text` to the agent at `to` when this turn commits. Raises if the path is not an agent of this user."""
        ...

    def remind(self, after_s: float, text: str) -> int:
        """Have `text` posted to this agent after so many seconds; return the due wall time in ms."""
        ...

    async def ask(self, to: str, text: str, deadline_s: float) -> Waiting:
        """Post to another agent of this user; return what `run` is to return, so that the model reads the answer.

        Posted at once, and once only: a repeat of the call after a crash finds the first. Raises on a cycle, for an
        unknown or a dead agent.
        """
        ...

    async def spawn(
        self, task: str, *, prompt: str = "", tools: Sequence[str] | None = None, deadline_s: float | None = None
    ) -> tuple[str, Waiting | None]:
        """Create a helper `<path>/sub/<n>` with a task of its own; return its path and, with a deadline, the wait.

        `prompt` is its own system prompt; `tools` narrows what it may use, which is never more than its parent may.
        Without a deadline its answer comes as a message. Done at once, and once only, as `ask`.
        """
        ...

    def progress(self, text: str) -> None:
        """Let people who watch know how far a long call is: an event, kept nowhere."""
        ...

    async def read(self, file_id: int, offset: int = 0, length: int = FILE_MAX_BYTES) -> tuple[File, bytes]:
        """Return a file of this user, an attachment or a kept result, and bytes of it.

        Raises `NotFoundError`; past its end there are none.
        """
        ...

    def offer(self, choices: Sequence[Choice]) -> None:
        """Let the turn's reply come with answers to choose from; the person may write something else as well."""
        ...

    async def react(self, emoji: str) -> None:
        """Put an emoji to the message that is being answered. Raises `InvalidError` where the messenger cannot."""
        ...

    async def attach(self, file_id: int) -> File:
        """Let the turn's reply come with a file of this user. Raises `NotFoundError`, `InvalidError` past 10 files."""
        ...

    async def write(self, name: str, media_type: str, data: bytes) -> File:
        """Keep a new file of this user, to be attached or read later. A repeat after a crash finds the first."""
        ...

    async def agents(self) -> list[tuple[str, str]]:
        """Return (path, description) of the user's living agents, this one included."""
        ...


class Tool(Protocol):
    """Something a model can do.

    `idempotent` False means: after a crash in its window it is never run again, the step becomes `uncertain`.
    `run` gets arguments that were validated against `spec.schema` and returns text for the model, or the `Waiting` of
    `ask` or `spawn`, or `Sourced` text; it raises `DaycareError` for failures the model should read.

    A tool may have a method `outlasts(arguments)` that returns whether such a call brings about something that outlasts
    its turn: a job, an agent, a reminder, or the end of one. A turn that has read others' words asks its person first,
    as it does before one whose `spec.changes_outside`. A method `asks(context, arguments)` returns why a person has to
    say yes whatever was read, "" if none has to; before that the call counts as not begun. A method `ready()` returns
    whether agents have it now, as where it needs a token that may be stored or deleted; it is asked at each turn.
    """

    spec: ToolSpec
    idempotent: bool

    def run(self, context: ToolContext, arguments: Any) -> Awaitable[str | Waiting | Sourced]:
        """Do it."""
        ...

    def decode(self, arguments: Mapping[str, Any]) -> Any:
        """Validate raw arguments; raise `msgspec.ValidationError` naming the wrong or unknown field."""
        ...


class StructTool(Generic[A]):
    """A tool whose arguments are a msgspec struct that forbids unknown fields; its docstring is for the model.

    What it `reads_private`, `reads_outside` and `changes_outside` is that of its `ToolSpec`; `outlasts` and `ready` are
    those of `Tool`.
    """

    def __init__(
        self,
        name: str,
        arguments: type[A],
        run: Callable[[ToolContext, A], Awaitable[str | Waiting | Sourced]],
        *,
        idempotent: bool,
        group: str = "",
        reads_private: bool = True,
        reads_outside: bool = True,
        changes_outside: bool = True,
        outlasts: bool | Callable[[A], bool] = False,
        ready: Callable[[], bool] | None = None,
    ) -> None:
        description, schema = _told(arguments)
        self.spec = ToolSpec(
            name=name,
            description=description or name,
            schema=schema,
            group=group,
            reads_private=reads_private,
            reads_outside=reads_outside,
            changes_outside=changes_outside,
        )
        self.idempotent = idempotent
        self._arguments = arguments
        self._run = run
        self._outlasts = outlasts
        if ready is not None:
            self.ready = ready

    def decode(self, arguments: Mapping[str, Any]) -> A:
        """Validate raw arguments; raises `msgspec.ValidationError` naming the wrong or unknown field."""
        return msgspec.convert(arguments, self._arguments)

    def run(self, context: ToolContext, arguments: Any) -> Awaitable[str | Waiting | Sourced]:
        """Do it."""
        return self._run(context, arguments)

    def outlasts(self, arguments: A) -> bool:
        """Return whether such a call brings about something that outlasts its turn."""
        return self._outlasts(arguments) if callable(self._outlasts) else self._outlasts


@lru_cache(maxsize=256)  # more than a daemon has; each daemon of a process makes the same ones
def _told(arguments: type[msgspec.Struct]) -> tuple[str, dict[str, Any]]:
    """Return what a model reads of arguments: their docstring and their JSON Schema, which nobody changes."""
    kinds = msgspec.json.schema(arguments)["$defs"]
    made = kinds.pop(arguments.__name__)  # providers want an object, not a reference to one
    flat = {key: value for key, value in made.items() if key not in ("title", "description")}
    flat |= {"$defs": kinds} if kinds else {}
    _shorten(flat)
    return " ".join((arguments.__doc__ or "").split()), flat


def _shorten(schema: dict[str, Any]) -> None:
    """Leave out what tells a model nothing: that what it leaves out is empty."""
    if schema.get("default", False) in ("", None):
        del schema["default"]
    for value in schema.values():
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, dict):
                _shorten(each)


def is_gated(tool: Tool, arguments: Any) -> bool:
    """Return whether a call needs a person's yes after others' words: it acts elsewhere, or later."""
    return tool.spec.changes_outside or outlasts(tool, arguments)


async def asks(tool: Tool, context: ToolContext, arguments: Any) -> str:
    """Return why a tool wants a person's yes for a call, "" for most."""
    says = getattr(tool, "asks", None)
    return str(await says(context, arguments)) if says is not None else ""


def comes_and_goes(tool: Tool) -> bool:
    """Return whether a tool says when it is there; most are always."""
    return getattr(tool, "ready", None) is not None


def ready(tool: Tool) -> bool:
    """Return whether agents have a tool now."""
    says = getattr(tool, "ready", None)
    return says is None or bool(says())


def outlasts(tool: Tool, arguments: Any) -> bool:
    """Return what a tool says of a call; one that says nothing brings about nothing that lasts."""
    says = getattr(tool, "outlasts", None)
    return says is not None and bool(says(arguments))
