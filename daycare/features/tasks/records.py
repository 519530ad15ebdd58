"""What a task is: work that is done once, with parameters of declared types, until a deadline; and how it is kept.

Times are wall-clock milliseconds, UTC.
"""

import math
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from daycare.base.cron import PROMPT_MAX_BYTES, Name, Value, filled, places_without
from daycare.base.errors import InvalidError
from daycare.base.limits import TASK_DEADLINE_MAX_S, TASK_DEADLINE_S
from daycare.base.messages import Envelope, Origin, Origins
from daycare.store.records import NewAgent

Type = Literal["text", "number", "whole", "yes_no", "choice"]
ENDED: Final = ("done", "failed", "cancelled", "expired")

_YES_NO: Final = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_EXPECTED: Final = {"text": "a text", "number": "a number", "whole": "a whole number", "yes_no": "yes or no"}


class Parameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A value that has to be of a type. `choices` are those of the type `choice`."""

    value: Value
    type: Type = "text"
    choices: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(max_length=32)] = ()


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A task as people and agents write it; doc/use/tasks.md explains each field. A bare value is of its own type."""

    prompt: str
    parameters: Annotated[dict[Name, Value | Parameter], Meta(max_length=32)] = msgspec.field(default_factory=dict)
    deadline_s: float = TASK_DEADLINE_S

    def values(self) -> dict[str, Value]:
        """Return the parameters' values, each of its type. Raises `InvalidError` TASK_PARAMETER naming it."""
        return {name: value_of(name, given) for name, given in self.parameters.items()}

    def said(self) -> str:
        """Return what the agent is told. Raises `InvalidError` that names the field that is wrong."""
        if not self.prompt.strip():
            raise _wrong("prompt", "is needed: what is to be done")
        if not 1 <= self.deadline_s <= TASK_DEADLINE_MAX_S:
            raise _wrong("deadline_s", f"has to be from 1 to {TASK_DEADLINE_MAX_S:g} seconds")
        values = self.values()
        if unknown := places_without(self.prompt, values):
            raise _wrong("prompt", f"names {{{{{unknown[0]}}}}}, which is not one of its parameters")
        text = filled(self.prompt, values)
        if len(text.encode()) > PROMPT_MAX_BYTES:
            raise _wrong("prompt", f"is longer than {PROMPT_MAX_BYTES} bytes; put it into a document")
        return text


def value_of(name: str, given: Value | Parameter) -> Value:
    """Return a parameter's value in its type. Raises `InvalidError` TASK_PARAMETER."""
    if not isinstance(given, Parameter):
        return given
    value = _read(given)
    if value is None:
        of = f"one of {', '.join(given.choices) or '(no choices)'}" if given.type == "choice" else _EXPECTED[given.type]
        raise InvalidError(
            "TASK_PARAMETER", f"parameter {name}: expected {of}, not {given.value!r}", hint="doc/use/tasks.md"
        )
    return value


def _read(given: Parameter) -> Value | None:
    """Return a value in its type, None if it cannot be of it."""
    value = given.value
    match given.type:
        case "text":
            return value if isinstance(value, str) else None
        case "choice":
            return value if value in given.choices else None
        case "yes_no":
            return value if isinstance(value, bool) else _YES_NO.get(str(value).strip().lower())
        case "number":
            return _number(value)
        case "whole":
            number = _number(value)
            return int(number) if number is not None and number == int(number) else None


def _number(value: Value) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value.strip() or "-", type=int | float)
        except msgspec.MsgspecError:
            return None
    return value if math.isfinite(value) else None


def _wrong(field: str, what: str) -> InvalidError:
    return InvalidError("TASK_INVALID", f"{field} {what}", hint="doc/use/tasks.md")


TaskState = Literal["waiting", "running", "done", "failed", "cancelled", "expired"]


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be begun. `id` is its name, empty: its number. `key` names the call: a repeat finds the first.

    `create` and `message` get the path that comes of it. `deadline_at` is when it is stopped. What it spends counts for
    the path `payer`, too: of the agent that asked, or of the scheduled job whose run it is.
    """

    user: str
    id: str
    key: str
    prompt: str
    create: NewAgent
    message: Envelope
    deadline_at: int
    asker: str = ""
    payer: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    deliver: str = ""
    connector: str = ""
    target: str | None = None
    waits: bool = False


class TaskProgress(msgspec.Struct, frozen=True):
    """How far a task was at a time. `key` names the call that told it, `origins` whose words are in it."""

    at: int
    text: str
    key: str = ""
    origins: Origins = None


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task. `asker` is the agent that asked, empty for a person; `result` is what it came to, or had when it stopped.

    `delivery` is the state of what a person is told, with `told_by` and `receipt`; empty when there is nothing.
    """

    no: int
    path: str
    user: str
    origin: Origin
    asker: str
    prompt: str
    parameters: dict[str, Any]
    deliver: str
    connector: str
    target: str | None
    waits: bool
    state: TaskState
    reason: str
    progress: tuple[TaskProgress, ...]
    agent_id: str
    seq: int
    trace: str
    turn: int | None
    created_at: int
    deadline_at: int
    started_at: int | None
    ended_at: int | None
    tokens: int
    cost_micros: int
    outbox: int | None
    result: str | None = None
    delivery: str = ""
    told_by: str = ""
    receipt: str | None = None

    @property
    def id(self) -> str:
        """The last part of its path."""
        return self.path.rsplit("/", 1)[-1]


class TaskNews(msgspec.Struct):
    """What a commit made of tasks: those that changed, as they are now, and (number, text) of what they told.

    `ended` are messages with the tasks that ended with them, until their turn is complete.
    """

    tasks: list[Task] = []  # msgspec gives each its own
    progress: list[tuple[int, str]] = []
    ended: dict[int, int] = {}


class TaskTold(msgspec.Struct, frozen=True):
    """A fact: how a task ended is on its way to a person, as this reply. `seq` is the message that was its work."""

    seq: int
    path: str
    reply: int
