"""Addresses: a path is the name under which an agent is reached, such as `/ann/telegram/sub/0`.

    path    = "/system/" name
            | root suffix*
    root    = "/" user "/" connector
            | "/" user "/" ("agent" | "cron" | "task" | "subuser" | "app") "/" name
    suffix  = "/sub/" n  |  "/search/" n  |  "/memory"        search and memory are leaves

Every `Path` is inside the grammar: it is read strictly from left to right or built, never guessed. Because reserved
words are no connectors and `system` is no user, each text has one meaning, whatever plugins are installed.
"""

import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import total_ordering
from typing import Final, NoReturn, Self

from daycare.base.errors import BrokenError, InvalidError
from daycare.base.limits import NAME_MAX_CHARS, PATH_MAX_CHARS, SUB_LEVELS_MAX

CHILD_INDEX_MAX: Final = 2**31 - 1  # index of a sub-agent or search: fits a 32-bit column


class Kind(StrEnum):
    """What a path names; stored with the agent when it is created."""

    CONNECTOR = "connector"
    AGENT = "agent"
    CRON = "cron"
    TASK = "task"
    SUBUSER = "subuser"
    APP = "app"
    SUB = "sub"
    SEARCH = "search"
    MEMORY = "memory"
    SYSTEM = "system"


FOREGROUND: Final = (Kind.CONNECTOR, Kind.SUBUSER)  # the kinds that are somebody's own conversation
PEOPLES: Final = (*FOREGROUND, Kind.AGENT, Kind.APP)  # people, or programs of theirs, talk with them


class Role(StrEnum):
    """Which configured model an agent uses; an agent without a role uses the default one."""

    USER = "user"
    SUBAGENT = "subagent"
    MEMORY = "memory"
    MEMORY_SEARCH = "memorySearch"
    TASK = "task"


class FetchPolicy(StrEnum):
    """Which of a user's agents are meant when no path is given."""

    MOST_RECENT_FOREGROUND = "most_recent_foreground"
    ALL_OF_USER = "all_of_user"


@total_ordering
class Path:
    """An address inside the grammar: immutable, hashable, equal by text.

    Sorted, a parent stands right before its subtree and `sub/2` before `sub/10`. Get one from `parse` (text from
    outside), `stored` (a row) or a builder; serializers refuse it, so that no text becomes a path unread.
    """

    __slots__ = ("_kind", "_segments", "_text")
    _kind: Kind
    _segments: tuple[str, ...]
    _text: str

    @classmethod
    def parse(cls, text: str, connectors: Collection[str]) -> Self:
        """Read text from outside; `connectors` are the names of the registered connectors.

        Raises InvalidError PATH_INVALID that says what was expected, and at which character.
        """
        segments = _split(text)
        return cls._make(text, segments, _read(segments, connectors))

    @classmethod
    def stored(cls, text: str, kind: Kind) -> Self:
        """Load a row. Its connector need not be registered any more.

        Raises BrokenError PATH_STORED if the row is damaged: its text is no address, or not one of its kind.
        """
        try:
            segments = _split(text)
            found = _read(segments, None)
        except InvalidError as error:
            raise BrokenError("PATH_STORED", f"load a stored {kind} path: {error.message}", hint=_RESTORE) from error
        if found != kind:
            raise BrokenError("PATH_STORED", f"load {text} as {kind}: it is an address of kind {found}", hint=_RESTORE)
        return cls._make(text, segments, found)

    @classmethod
    def connector(cls, user: str, name: str) -> Self:
        """`/<user>/<name>`: the conversation of a user through a connector, whether it is registered or not."""
        if name in _RESERVED:
            message = f"use {name!r} as connector name: the word is reserved in addresses"
            raise _invalid(message, "rename the connector")
        segments = (check_user_id(user), check_name(name, "connector name"))
        return cls._make(_join(segments), segments, Kind.CONNECTOR)

    @classmethod
    def agent(cls, user: str, name: str) -> Self:
        """`/<user>/agent/<name>`: a permanent agent of a user."""
        return cls._root(Kind.AGENT, user, name)

    @classmethod
    def cron(cls, user: str, name: str) -> Self:
        """`/<user>/cron/<name>`: what runs on a schedule."""
        return cls._root(Kind.CRON, user, name)

    @classmethod
    def task(cls, user: str, name: str) -> Self:
        """`/<user>/task/<name>`: a piece of work on its own."""
        return cls._root(Kind.TASK, user, name)

    @classmethod
    def subuser(cls, user: str, name: str) -> Self:
        """`/<user>/subuser/<name>`: a person whom `user` administers."""
        return cls._root(Kind.SUBUSER, user, name)

    @classmethod
    def app(cls, user: str, name: str) -> Self:
        """`/<user>/app/<name>`: a program that speaks for a user."""
        return cls._root(Kind.APP, user, name)

    @classmethod
    def system(cls, tag: str) -> Self:
        """`/system/<tag>`: the daemon itself; it has no children."""
        segments = ("system", check_name(tag, "system name"))
        return cls._make(_join(segments), segments, Kind.SYSTEM)

    def sub(self, n: int) -> Self:
        """Return the n-th sub-agent. Raises InvalidError below a leaf or deeper than SUB_LEVELS_MAX."""
        return self._child(Kind.SUB, _index(n))

    def search(self, n: int) -> Self:
        """Return the n-th memory search, a leaf. Raises InvalidError below a leaf."""
        return self._child(Kind.SEARCH, _index(n))

    def memory(self) -> Self:
        """Return the memory worker, a leaf. Raises InvalidError below a leaf."""
        return self._child(Kind.MEMORY)

    @property
    def kind(self) -> Kind:
        """What this path names."""
        return self._kind

    @property
    def role(self) -> Role | None:
        """Which model it uses; None is the default model."""
        return _ROLES[self._kind]

    @property
    def user(self) -> str:
        """The user whose path this is; `system`, which is no user id, for the daemon's own."""
        return self._segments[0]

    @property
    def name(self) -> str:
        """The last segment: a name, an index as text, or `memory`."""
        return self._segments[-1]

    @property
    def parent(self) -> Self | None:
        """The agent this one is a child of; None for a root."""
        if self._kind not in _CHILDREN:
            return None
        segments = self._segments[:-1] if self._kind is Kind.MEMORY else self._segments[:-2]
        if len(segments) == 2:
            kind = Kind.CONNECTOR
        elif len(segments) == 3:
            kind = _ROOTS[segments[1]]
        else:
            kind = Kind.SUB  # the other kinds below a root are leaves, and nobody's parent
        return self._make(_join(segments), segments, kind)

    @property
    def root(self) -> Self:
        """The path without what is below its root: itself, for a root."""
        above = self
        while above.parent is not None:
            above = above.parent
        return above

    @property
    def sub_levels(self) -> int:
        """How many sub-agents deep it is."""
        levels, above = 0, self.parent
        while above is not None:
            levels, above = levels + 1, above.parent
        return levels if self._kind is Kind.SUB else max(levels - 1, 0)

    @property
    def is_foreground(self) -> bool:
        """Whether a person talks here directly."""
        return self._kind in FOREGROUND

    def is_under(self, other: "Path") -> bool:
        """Whether this path is `other` or in its subtree."""
        return self._segments[: len(other._segments)] == other._segments

    def label(self, config_name: str | None) -> str:
        """Return the path for people, on one line: `/ann/agent/x (Xavier)`, or the bare path without a name."""
        words = "".join(c if c.isprintable() else " " for c in config_name or "").split()
        return f"{self._text} ({' '.join(words)})" if words else self._text

    @classmethod
    def _make(cls, text: str, segments: tuple[str, ...], kind: Kind) -> Self:
        self = object.__new__(cls)
        _set(self, "_text", text)
        _set(self, "_segments", segments)
        _set(self, "_kind", kind)
        return self

    @classmethod
    def _root(cls, kind: Kind, user: str, name: str) -> Self:
        segments = (check_user_id(user), kind.value, check_name(name, f"{kind} name"))
        return cls._make(_join(segments), segments, kind)

    def _child(self, kind: Kind, *index: str) -> Self:
        if self._kind in _LEAVES:
            raise _invalid(f"add /{kind} below {self}: a {self._kind} path has no children", "address its parent")
        segments = (*self._segments, kind.value, *index)
        if kind is Kind.SUB and (len(segments) - _root_length(segments)) // 2 > SUB_LEVELS_MAX:
            raise _invalid(f"add /sub below {self}: it has {SUB_LEVELS_MAX} sub levels already", _TOO_DEEP)
        return self._make(_join(segments), segments, kind)

    def _order(self) -> tuple[str | int, ...]:
        at = _root_length(self._segments)
        below = (int(segment) if segment.isdigit() else segment for segment in self._segments[at:])
        return (*self._segments[:at], *below)

    def __init__(self) -> None:
        raise TypeError("use Path.parse, Path.stored or a builder such as Path.agent")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Path is immutable: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Path is immutable: {name} cannot be deleted")

    def __reduce__(self) -> tuple[object, tuple[str, Kind]]:
        return Path.stored, (self._text, self._kind)

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Path) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._order() < other._order() if isinstance(other, Path) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Path({self._text!r})"


class Pattern:
    """A set of paths: `/ann/**` all of a user, `/ann/*` a user's roots, `<path>/**` a path with its subtree.

    A path without stars is the set of that one path.
    """

    __slots__ = ("_base", "_stars")

    def __init__(self, text: str, connectors: Collection[str] | None) -> None:
        """Read a pattern; with `connectors` None (text that was checked when it was stored) the registry is not asked.

        Raises InvalidError PATH_INVALID.
        """
        segments = _split(text)
        self._stars = segments[-1] if segments[-1] in ("*", "**") else ""
        self._base = segments[:-1] if self._stars else segments
        if len(self._base) == 1 and self._stars:
            if self._base != ("system",):
                _name_at(segments, 0, "a user id")
        elif not self._base or self._stars == "*":
            raise _wrong(segments, len(self._base), "/<user>/*, /<user>/** or <path>/**")
        else:
            _read(self._base, connectors)

    def matches(self, path: Path) -> bool:
        """Whether `path` is in the set."""
        if self._stars == "*":
            return path.user == self._base[0] and path.kind not in _CHILDREN
        if self._stars:
            return path._segments[: len(self._base)] == self._base
        return path._segments == self._base

    def begins_below(self, path: Path) -> bool:
        """Whether the set is of paths below `path`, of which it is none itself."""
        return len(self._base) > len(path._segments) and self._base[: len(path._segments)] == path._segments

    def __str__(self) -> str:
        return _join((*self._base, self._stars) if self._stars else self._base)


def fetch(strategy: FetchPolicy, user: str, candidates: Sequence[tuple[Path, int]]) -> list[Path]:
    """Choose among `(path, recency)`, greater recency being later; the most recent come first, ties in path order."""
    mine = [(path, recency) for path, recency in candidates if owner_of(path) == user]
    if strategy is FetchPolicy.MOST_RECENT_FOREGROUND:
        mine = [(path, recency) for path, recency in mine if path.is_foreground]
    ranked = [path for path, _ in sorted(mine, key=lambda pair: (-pair[1], pair[0]))]
    return ranked[:1] if strategy is FetchPolicy.MOST_RECENT_FOREGROUND else ranked


def owner_of(path: Path) -> str:
    """Return whose agent lives at a path: below a sub-user's, theirs."""
    root = path.root
    return root.name if root.kind is Kind.SUBUSER else path.user


def check_name(text: str, what: str) -> str:
    """Return `text` if it is a name; `what` says in the error whose. Raises InvalidError PATH_INVALID."""
    if not _is_name(text):
        raise _invalid(f"use {_show(text)} as {what}: expected {_NAME_RULE}", "choose another name")
    return text


def check_user_id(text: str) -> str:
    """Return `text` if it can be a user id: a name other than `system`. Raises InvalidError PATH_INVALID."""
    if text == "system":
        raise _invalid("use 'system' as user id: it names the daemon itself", "choose another user id")
    return check_name(text, "user id")


_ROOTS: Final = {kind.value: kind for kind in (Kind.AGENT, Kind.CRON, Kind.TASK, Kind.SUBUSER, Kind.APP)}
_SUFFIXES: Final = {kind.value: kind for kind in (Kind.SUB, Kind.SEARCH, Kind.MEMORY)}
_CHILDREN: Final = frozenset(_SUFFIXES.values())
_LEAVES: Final = frozenset((Kind.SEARCH, Kind.MEMORY, Kind.SYSTEM))
_RESERVED: Final = frozenset((*_ROOTS, *_SUFFIXES, "system"))
_ROLES: Final[dict[Kind, Role | None]] = {
    Kind.CONNECTOR: Role.USER,
    Kind.AGENT: Role.USER,
    Kind.SUBUSER: Role.USER,
    Kind.APP: Role.USER,
    Kind.SUB: Role.SUBAGENT,
    Kind.MEMORY: Role.MEMORY,
    Kind.SEARCH: Role.MEMORY_SEARCH,
    Kind.TASK: Role.TASK,
    Kind.CRON: None,
    Kind.SYSTEM: None,
}

_set: Final = object.__setattr__  # Path's own refuses
_is_name: Final = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{NAME_MAX_CHARS - 1}}}").fullmatch
_is_index: Final = re.compile(r"0|[1-9][0-9]{0,9}").fullmatch
_NAME_RULE: Final = f"1 to {NAME_MAX_CHARS} of a-z, 0-9, - and _, the first a letter or digit"
_RESTORE: Final = "the database is damaged: restore a backup"
_TOO_DEEP: Final = "let an agent further up create it"


def _split(text: str) -> tuple[str, ...]:
    if len(text) > PATH_MAX_CHARS:
        raise _invalid(f"read path {_show(text)}: it has {len(text)} characters, expected at most {PATH_MAX_CHARS}")
    head, *segments = text.split("/")
    if head or not segments:
        raise _invalid(f"read path {_show(text)}: expected '/' at character 1", "write it as /<user>/...")
    return tuple(segments)


def _read(segments: tuple[str, ...], connectors: Collection[str] | None) -> Kind:
    """Return the kind that the segments spell, from left to right; without `connectors` every name is one."""
    if segments[0] == "system":
        _name_at(segments, 1, "a system name")
        if len(segments) > 2:
            raise _wrong(segments, 2, "the end, as /system/<name> has no children")
        return Kind.SYSTEM
    _name_at(segments, 0, "a user id")
    word = segments[1] if len(segments) > 1 else ""
    kind = _ROOTS.get(word)
    if kind:
        _name_at(segments, 2, f"the {word}'s name")
        at = 3
    else:
        _connector_at(segments, 1, connectors)
        kind = Kind.CONNECTOR
        at = 2
    levels = 0
    while at < len(segments):
        if kind in _LEAVES:
            raise _wrong(segments, at, f"the end, as a {kind} path has no children")
        kind = _SUFFIXES.get(segments[at])
        if kind is None:
            raise _wrong(segments, at, "sub/<n>, search/<n>, memory or the end")
        if kind is Kind.MEMORY:
            at += 1
            continue
        levels += kind is Kind.SUB
        if levels > SUB_LEVELS_MAX:
            raise _wrong(segments, at, f"at most {SUB_LEVELS_MAX} sub levels", _TOO_DEEP)
        index = segments[at + 1] if at + 1 < len(segments) else ""
        if not _is_index(index) or int(index) > CHILD_INDEX_MAX:
            raise _wrong(segments, at + 1, f"a decimal index from 0 to {CHILD_INDEX_MAX} without leading zeros")
        at += 2
    return kind


def _connector_at(segments: tuple[str, ...], at: int, connectors: Collection[str] | None) -> None:
    word = segments[at] if at < len(segments) else ""
    if word in _RESERVED or not _is_name(word):
        raise _wrong(segments, at, f"a connector or one of {', '.join(_ROOTS)}")
    if connectors is not None and word not in connectors:
        known = ", ".join(sorted(connectors)) or "none"
        raise _wrong(segments, at, "a registered connector", f"registered connectors: {known}")


def _name_at(segments: tuple[str, ...], at: int, what: str) -> None:
    if at >= len(segments) or not _is_name(segments[at]):
        raise _wrong(segments, at, f"{what} ({_NAME_RULE})")


def _root_length(segments: tuple[str, ...]) -> int:
    return 3 if segments[1] in _ROOTS else 2


def _index(n: int) -> str:
    if type(n) is not int or not 0 <= n <= CHILD_INDEX_MAX:  # True would become the index 1
        raise _invalid(f"use {n!r} as an index: expected a whole number from 0 to {CHILD_INDEX_MAX}")
    return str(n)


def _join(segments: tuple[str, ...]) -> str:
    return "/" + "/".join(segments)


def _wrong(segments: tuple[str, ...], at: int, expected: str, hint: str = "") -> InvalidError:
    place = 2 + sum(len(segment) + 1 for segment in segments[:at])
    found = _show(segments[at]) if at < len(segments) else "the end"
    if at >= len(segments):
        place -= 1  # the end is where the slash is missing
    what = f"read path {_show(_join(segments))}: expected {expected} at character {place}, found {found}"
    return _invalid(what, hint)


def _invalid(message: str, hint: str = "") -> InvalidError:
    return InvalidError("PATH_INVALID", message, hint=hint or "write it as /<user>/<connector> or /<user>/agent/<name>")


def _show(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:77] + "...")
