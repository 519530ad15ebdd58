"""What agents may do to others: the actions, and rules about them as `[[rules]]` in config.toml and agents say them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Final, Literal

import msgspec

from daycare.base.errors import InvalidError
from daycare.base.likeness import nearest_name
from daycare.base.limits import RULES_MAX
from daycare.base.path import Pattern
from daycare.base.scope import user_in
from daycare.base.toml_positions import Key

MESSAGE: Final = "message"  # write to it, or ask it
SPAWN: Final = "spawn"  # make a helper below it
READ_MEMORY: Final = "read_memory"
WRITE_MEMORY: Final = "write_memory"
READ_HISTORY: Final = "read_history"  # what was said in its conversation
KILL: Final = "kill"
SCHEDULE: Final = "schedule"  # have something posted to it at a time
TOOL: Final = "tool:"  # tool:NAME, use a tool; whom that concerns is a question of the other actions
ACTIONS: Final = (MESSAGE, SPAWN, READ_MEMORY, WRITE_MEMORY, READ_HISTORY, KILL, SCHEDULE)
EVERY: Final = "*"  # every action; `tool:*`: every tool


class Decision(StrEnum):
    """What a rule says of an action. The stricter stands behind."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class PersonsSay(StrEnum):
    """What a person says to the call that runs: nobody can be asked, somebody can be asked later, or has said yes."""

    NOBODY = "nobody"
    LATER = "later"
    YES = "yes"


_say: ContextVar[PersonsSay] = ContextVar("what a person says", default=PersonsSay.NOBODY)


@contextmanager
def persons_say(say: PersonsSay) -> Iterator[None]:
    """Let this hold for what is checked within."""
    before = _say.set(say)
    try:
        yield
    finally:
        _say.reset(before)


def what_person_says() -> PersonsSay:
    """Return what holds here."""
    return _say.get()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`[[rules]]`: what agents may do to others. `subject` and `object` are patterns of paths; empty ones fit all."""

    action: str
    decision: Decision
    subject: str = ""
    object: str = ""

    def __str__(self) -> str:
        return f"{self.decision} {self.action} from {self.subject or 'all'} to {self.object or 'all'}"


class OwnRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A rule among an agent's own settings, for it and all below it. It can only narrow."""

    action: str
    decision: Literal["ask", "deny"]
    object: str = ""

    def __str__(self) -> str:
        return f"{self.decision} {self.action} to {self.object or 'all'}"


class Permissions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`permissions` among an agent's settings."""

    rules: tuple[OwnRule, ...] = ()


def check_action(text: str) -> str:
    """Return `text` if it is an action. Raises `InvalidError` ACTION_UNKNOWN."""
    if text in ACTIONS or (text.startswith(TOOL) and text.removeprefix(TOOL)):
        return text
    raise InvalidError("ACTION_UNKNOWN", f"reading the action {text[:80]!a}: {_expected(text)}", hint="message")


def flaws(rules: Sequence[Rule]) -> Iterator[tuple[Key, str]]:
    """Return what is wrong in the rules of config.toml, by key; the first is number 1."""
    if len(rules) > RULES_MAX:
        yield ("rules",), f"expected at most {RULES_MAX}"
    for number, rule in enumerate(rules, 1):
        at = ("rules", str(number))
        yield from (((*at, field), what) for field, what in _common(rule))
        wrong = False
        for field in ("subject", "object"):
            if text := getattr(rule, field):
                for what in _pattern(text):
                    wrong = True
                    yield (*at, field), what
        if rule.decision is Decision.ALLOW and not wrong:
            yield from (((*at, field), what) for field, what in _allowing(rule))


def own_flaws(permissions: Permissions) -> Iterator[str]:
    """Return what is wrong in an agent's own rules."""
    if len(permissions.rules) > RULES_MAX:
        yield f"permissions.rules: expected at most {RULES_MAX}"
    for number, rule in enumerate(permissions.rules, 1):
        for field, what in _common(rule):
            yield f"permissions.rules.{number}.{field}: {what}"
        if rule.object:
            yield from (f"permissions.rules.{number}.object: {what}" for what in _pattern(rule.object))


def _common(rule: Rule | OwnRule) -> Iterator[tuple[str, str]]:
    action = rule.action
    if action != EVERY and action not in ACTIONS and not (action.startswith(TOOL) and action != TOOL):
        yield "action", _expected(action)
    elif action.startswith(TOOL) and rule.object:
        yield "object", "a tool is used on nobody: leave it out"


def _allowing(rule: Rule) -> Iterator[tuple[str, str]]:
    """An `allow` opens what is closed by itself, so it must not fit more than its writer thought of."""
    if rule.action.startswith(TOOL):
        yield "decision", "every tool is allowed by itself, and [tools] takes it away"
        return
    if not rule.subject or not rule.object:
        yield "decision", "an allow says who and whom: write subject and object"
    elif user_in(rule.subject) != user_in(rule.object) and rule.action != MESSAGE:
        yield "decision", "nothing but message can be allowed from one user to another"


def _pattern(text: str) -> Iterator[str]:
    try:
        Pattern(text, None)
    except InvalidError as error:
        yield error.message


def _expected(action: str) -> str:
    near = nearest_name(action, ACTIONS)
    return f"expected one of {', '.join(ACTIONS)} or tool:NAME" + (f"; did you mean `{near[0]}`?" if near else "")
