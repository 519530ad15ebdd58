"""What a task is: work that is done once, with parameters of declared types, until a deadline."""

import math
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from daycare.base.cron import PROMPT_MAX_BYTES, Name, Value, filled, places_without
from daycare.base.errors import InvalidError
from daycare.base.limits import TASK_DEADLINE_MAX_S, TASK_DEADLINE_S

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
    """A task as people and agents write it; doc/tasks.md explains each field. A bare value is of its own type."""

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
            raise _wrong("prompt", f"names {{{{{unknown[0]}}}}}, which is none of its parameters")
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
            "TASK_PARAMETER", f"parameter {name}: expected {of}, not {given.value!r}", hint="doc/tasks.md"
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
    return InvalidError("TASK_INVALID", f"{field} {what}", hint="doc/tasks.md")
