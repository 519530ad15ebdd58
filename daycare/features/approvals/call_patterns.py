"""Calls that a person approves in advance: a tool with each of its arguments fixed, begun alike, or free.

A pattern is never wider than it reads. It fits no call with an argument that it does not name, and it holds after
others' words only where the person said so, which takes that nothing in it is free.
"""

import hashlib
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from daycare.base.errors import InvalidError
from daycare.features.approvals.records import Approval, CallAction
from daycare.rules.shown import shown

_WEB = ("http", "https")


class CallPattern(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Calls of a tool: those whose arguments are `exact`, begin with a text, or are `free`, and that have no others."""

    tool: str
    exact: dict[str, Any] = {}
    begins: dict[str, str] = {}
    free: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = [f"{name} = {_literal(value)}" for name, value in self.exact.items()]
        told += [f"{name} begins with {_literal(value)}" for name, value in self.begins.items()]
        told += [f"{name} is anything" for name in self.free]
        return f"{self.tool}: {', '.join(told) or 'no arguments'}"

    def fits(self, action: CallAction) -> bool:
        """Return whether a call is one of these."""
        known = {*self.exact, *self.begins, *self.free}
        return (
            action.tool == self.tool
            and action.arguments.keys() <= known
            and all(name in action.arguments and _same(action.arguments[name], it) for name, it in self.exact.items())
            and all(_begins(action.arguments.get(name), text) for name, text in self.begins.items())
        )


class PatternWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person approves along with a request: calls like it, in this `session` of the conversation or `always`.

    `others`: also in turns that have read others' words.
    """

    scope: Literal["session", "always"]
    pattern: CallPattern
    others: bool = False

    def __str__(self) -> str:
        when = "in this conversation" if self.scope == "session" else "always, until you take it back"
        after = ", also after words of others" if self.others else ", but not after words of others"
        return f"{self.pattern} ({when}{after})"

    def digest(self, it: Approval) -> str:
        """Return the hash of what was shown of this together with a request."""
        return hashlib.sha256(f"{it.content_hash}\n{self}".encode()).hexdigest()[:16]


class PatternGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may call without asking. `request` is the one it was given with; `session` None: in every one."""

    no: int
    request: int
    agent_id: str
    user: str
    by: str
    session: int | None
    others: bool
    pattern: CallPattern
    created_at: int

    def __str__(self) -> str:
        return str(
            PatternWish(scope="always" if self.session is None else "session", pattern=self.pattern, others=self.others)
        )

    def covers(self, action: CallAction, session: int) -> bool:
        """Return whether a call of a session needs no other yes."""
        return self.session in (None, session) and (self.others or not action.others) and self.pattern.fits(action)


def pattern_of(action: CallAction) -> CallPattern:
    """Return the pattern that is proposed for a call: an address up to the end of its host, all else as it is.

    Of one that changes a text, any change of that text, unless others' words were read.
    """
    if action.where and not action.others:
        exact = {name: value for name, value in action.arguments.items() if value == action.where}
        free = tuple(name for name in action.arguments if name not in exact)
        return CallPattern(tool=action.tool, exact=exact, free=free)
    begins = {name: origin for name, value in action.arguments.items() if (origin := _origin(value))}
    exact = {name: value for name, value in action.arguments.items() if name not in begins}
    return CallPattern(tool=action.tool, exact=exact, begins=begins)


def check_wish(wish: PatternWish, it: Approval) -> None:
    """Raise `InvalidError` GRANT_REFUSED for what may not be approved along with a request."""
    why = _refusal(wish, it)
    if why:
        raise InvalidError("GRANT_REFUSED", f"approving more than request {it.no}: {why}", hint="approve it alone")


def _refusal(wish: PatternWish, it: Approval) -> str:
    if not isinstance(it.action, CallAction):
        return "only calls of tools can be approved in advance"
    if it.suspicious:
        return "it is suspicious, and each such call is asked for"
    if not wish.pattern.fits(it.action):
        return f"it is none of {wish.pattern}"
    if wish.others and wish.pattern.free:
        return f"after words of others {wish.pattern.free[0]} cannot be left open"
    for name, text in wish.pattern.begins.items():
        if (wish.others or urlsplit(text).scheme in _WEB) and not text.startswith(_origin(text) or "\n"):
            return f"{name} has to name a whole host, such as https://example.org/"
    return ""


def _same(one: Any, other: Any) -> bool:
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


def _begins(value: Any, text: str) -> bool:
    return isinstance(value, str) and value.startswith(text)


def _origin(value: Any) -> str:
    """Return the beginning of an address up to its host, "" for what is no plain address with one."""
    if not isinstance(value, str):
        return ""
    try:
        parts = urlsplit(value)
    except ValueError:
        return ""
    origin = f"{parts.scheme}://{parts.netloc}/"
    plain = parts.scheme in _WEB and parts.netloc and "@" not in parts.netloc and "\\" not in parts.netloc
    return origin if plain and value.startswith(origin) else ""


def _literal(value: Any) -> str:
    return shown(msgspec.json.encode(value).decode())
