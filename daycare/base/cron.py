"""What a scheduled job is: when it is due, what it asks of whom, and what happens to a time that was missed."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from daycare.base import crontab
from daycare.base.errors import InvalidError
from daycare.base.limits import MESSAGE_MAX_BYTES, TASK_DEADLINE_MAX_S, TASK_DEADLINE_S
from daycare.base.meaning import meaning
from daycare.base.path import check_name
from daycare.base.zones import zone_of

SILENCE: Final = "NO_REPLY"  # the whole answer of an agent that has nothing to tell: nobody is written to
PROMPT_MAX_BYTES: Final = MESSAGE_MAX_BYTES // 2  # an occurrence adds its time and the last answer
WITHIN_MAX_MINUTES: Final = 60 * 24 * 31
TASK_NAME_MAX_CHARS: Final = 40  # a run adds its number
NOBODY: Final = "none"  # a `deliver` that keeps the answer in the ledger only

Value = Annotated[str, Meta(max_length=2_000)] | int | float | bool
Name = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,31}$")]

Expression = Annotated[
    str,
    meaning(
        'Five fields: minute hour day-of-month month day-of-week, such as "30 7 * * MON-FRI"',
        max_length=crontab.EXPRESSION_MAX_CHARS,
    ),
]
At = Annotated[str, meaning("Instead of cron: the one time, such as 2027-03-01T09:00", max_length=64)]
Zone = Annotated[str, meaning("IANA zone, such as Europe/Berlin; the user's without it", metavar="ZONE", max_length=64)]
Prompt = Annotated[str, meaning("What the agent is to do then, complete in itself", metavar="PROMPT")]
Target = Annotated[
    str, meaning("Address of the agent that gets it; without it one of its own", metavar="PATH", max_length=300)
]
Misfire = Annotated[
    str, meaning('When its time was missed: "skip", "run_once" (late) or "within MINUTES"', metavar="POLICY")
]
TaskName = Annotated[
    str,
    meaning(
        "For long work: a name; each run is then a task of this name and a number",
        metavar="NAME",
        max_length=TASK_NAME_MAX_CHARS,
    ),
]

_PLACE: Final = re.compile(r"\{\{\s*([a-z][a-z0-9_]{0,31})\s*\}\}")
_WITHIN: Final = re.compile(r"within (\d{1,6})")


class CronSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A scheduled job as people write it; doc/use/cron.md explains each field.

    `cron` is an expression, or `at` a single time. Empty `zone` is the user's, `target` the job's own agent, `deliver`
    the user's most recent conversation. With a `task` each run is a task of this name and a number, until `deadline_s`.
    """

    cron: Expression = ""
    at: At = ""
    zone: Zone = ""
    prompt: Prompt = ""
    description: Annotated[str, meaning("What it is for, in a line", metavar="TEXT", max_length=200)] = ""
    target: Target = ""
    deliver: Annotated[
        str, meaning('Where the answer goes, such as /ann/telegram, or "none"', metavar="PATH", max_length=300)
    ] = ""
    session: Annotated[
        Literal["fresh", "continue"],
        meaning('In what conversation: "fresh" for each run, or "continue" in the same', metavar="KIND"),
    ] = "fresh"
    enabled: bool = True
    delete_after_run: Annotated[bool, meaning("It goes once it has run")] = False
    parameters: Annotated[
        dict[Name, Value],
        meaning("A parameter of the prompt", metavar="NAME=VALUE", option="--set", max_length=32),
    ] = msgspec.field(default_factory=dict)
    misfire: Misfire = "within 60"
    overlap: Annotated[
        Literal["skip", "queue"], meaning('While one is running: "skip" or "queue"', metavar="POLICY")
    ] = "skip"
    retry: Annotated[int, meaning("More attempts of a failed run", metavar="N", ge=0, le=5)] = 0
    task: TaskName = ""
    deadline_s: Annotated[
        float, meaning("Seconds after which such a task is stopped", ge=1, le=TASK_DEADLINE_MAX_S)
    ] = TASK_DEADLINE_S

    def checked(self) -> "CronSpec":
        """Return it if its fields make sense together; raises `InvalidError` naming the field."""
        if not self.prompt.strip():
            raise _wrong("prompt", "is needed: what the agent is to do")
        if bool(self.cron) == bool(self.at):
            raise _wrong("cron", 'is needed, such as "30 7 * * MON-FRI", or else `at`, a single time: one of both')
        within(self.misfire)
        if self.task:
            check_name(self.task, "the name of a task")
            if self.target or self.session != "fresh":
                what = "target" if self.target else "session"
                raise _wrong(what, "does not go with task, which has an agent and a conversation of its own")
        elif self.deadline_s != TASK_DEADLINE_S:
            raise _wrong("deadline_s", "goes with task: only a task has a deadline")
        if self.zone:
            zone_of(self.zone)
        if self.cron:
            crontab.expression(self.cron)
        else:
            crontab.instant(self.at, zone_of(self.zone or "UTC"))
        unknown = places_without(self.prompt, self.parameters)
        if unknown:
            raise _wrong("prompt", f"names {{{{{unknown[0]}}}}}, which is not one of its parameters")
        if len(self.said().encode()) > PROMPT_MAX_BYTES:
            raise _wrong("prompt", f"is longer than {PROMPT_MAX_BYTES} bytes; put it into a document or a skill")
        return self

    def first(self, zone: str, after_ms: int) -> int | None:
        """Return when it is due next after a time, None if never; `zone` is its user's. It was `checked`."""
        if not self.enabled:
            return None
        return next(self.times(zone, after_ms), None)

    def times(self, zone: str, after_ms: int) -> Iterator[int]:
        """Yield when it is due after a time, enabled or not; `zone` is its user's."""
        here = zone_of(self.zone or zone)
        if self.at:
            due = crontab.instant(self.at, here)
            return iter((due,) if due > after_ms else ())
        return crontab.occurrences(crontab.expression(self.cron), here, after_ms)

    def said(self, more: dict[str, Any] | None = None) -> str:
        """Return the prompt with its parameters in their places; those without a place follow it."""
        return filled(self.prompt, self.parameters | (more or {}))


class CronSection(CronSpec, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A job in config.toml or in a file: with whose it is, empty for the operator's."""

    user: str = ""

    def spec(self) -> CronSpec:
        """Return the job alone."""
        fields = msgspec.structs.asdict(self)
        del fields["user"]
        return CronSpec(**fields)


def within(misfire: str) -> float:
    """Return how many minutes late a job may still run: 0 for `skip`, infinity for `run_once`."""
    if misfire == "skip":
        return 0.0
    if misfire == "run_once":
        return float("inf")
    found = _WITHIN.fullmatch(misfire)
    if found is None or not 1 <= int(found[1]) <= WITHIN_MAX_MINUTES:
        raise _wrong("misfire", 'expected "skip", "run_once" or "within MINUTES"')
    return float(found[1])


def places_without(prompt: str, values: Mapping[str, Any]) -> list[str]:
    """Return the names of a prompt's places `{{name}}` that have no value."""
    return sorted(set(_PLACE.findall(prompt)) - values.keys())


def filled(prompt: str, values: Mapping[str, Value]) -> str:
    """Return a prompt with values in its places; those without a place follow it."""
    places = set(_PLACE.findall(prompt))
    text = _PLACE.sub(lambda found: _shown(values[found[1]]), prompt)
    rest = [f"- {name}: {_shown(value)}" for name, value in values.items() if name not in places]
    return "\n".join((text, "", "Parameters:", *rest)) if rest else text


def is_silence(answer: str) -> bool:
    """Return whether an answer says that there is nothing to tell."""
    return answer.strip().strip("`*\"'.").strip() == SILENCE


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong(field: str, what: str) -> InvalidError:
    return InvalidError("CRON_INVALID", f"{field} {what}", hint="doc/use/cron.md")
