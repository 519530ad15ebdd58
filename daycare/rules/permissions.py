"""What one agent may do to another: rules, defaults and the line of its ancestors, and why it was decided so.

An agent may do something if it and every ancestor of it may; so a child never exceeds its parent. For each of them the
strictest of the rules that fit counts: deny wins. Without a rule the same user's agents are within reach and nobody
else's. A sub-user is a user: their agents reach nobody else's, and their owner's reach them without reading anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from daycare.base.path import Kind, Path, Pattern, owner_of
from daycare.base.permission import (
    EVERY,
    MESSAGE,
    READ_HISTORY,
    READ_MEMORY,
    TOOL,
    WRITE_MEMORY,
    Decision,
    Permissions,
    Rule,
)
from daycare.base.scope import scope_of

_STRICTNESS: Final = list(Decision)
_PRIVATE: Final = (READ_MEMORY, WRITE_MEMORY, READ_HISTORY)


class Party(msgspec.Struct, frozen=True):
    """An agent as far as rules look at it: the one that acts, or an ancestor of it. `tools` None: all."""

    path: Path
    permissions: Permissions = Permissions()
    tools: tuple[str, ...] | None = None


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said about the action: a rule and where it stands, or what holds without one."""

    source: str
    says: str
    decision: Decision


class PermissionStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one of the line may by itself."""

    path: str
    decision: Decision
    because: Fit
    fits: tuple[Fit, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether `subject` may do `action` to `object`. `steps` are of the subject first, then of its ancestors.

    `limited_by` is the ancestor that allows less than the subject could by itself, empty if none does.
    """

    subject: str
    action: str
    object: str
    decision: Decision
    reason: str
    limited_by: str
    steps: tuple[PermissionStep, ...]


class Rules:
    """The rules of an installation. `roles` are the tools that agents of a role may use; one that is missing: all."""

    def __init__(self, rules: Sequence[Rule] = (), roles: Mapping[str, Sequence[str]] | None = None) -> None:
        self._rules = [_Compiled(number, rule) for number, rule in enumerate(rules, 1)]
        self._roles = {role: frozenset(names) for role, names in (roles or {}).items()}

    @property
    def all(self) -> tuple[Rule, ...]:
        """The rules of config.toml in their order; the first is number 1."""
        return tuple(rule.rule for rule in self._rules)

    def decide(self, line: Sequence[Party], action: str, target: Path) -> Verdict:
        """Decide on an action; `line` is who acts, then its parent, and so on to the root."""
        steps = [self._step(party, action, target, acts=number == 0) for number, party in enumerate(line)]
        strictest = max(steps, key=lambda step: _STRICTNESS.index(step.decision))  # the first of equals: the subject
        subject = steps[0]
        limited = "" if strictest is subject else strictest.path
        said = f"{strictest.because.source}: {strictest.because.says}"
        return Verdict(
            subject=subject.path,
            action=action,
            object=str(target),
            decision=strictest.decision,
            reason=f"{limited} may not do more, and {subject.path} is below it; {said}" if limited else said,
            limited_by=limited,
            steps=tuple(steps),
        )

    def unlike(self, maker: Path, made: Path) -> str:
        """Return the first rule by which an agent at `made` might do what the one at `maker` may not, "" if none is.

        That is one that narrows the maker alone, or allows something to the other alone.
        """
        for rule in self._rules:
            favoured = maker if rule.rule.decision is not Decision.ALLOW else made
            other = made if favoured is maker else maker
            if rule.is_about(favoured) and not rule.is_about(other):
                return f"rule {rule.number} of config.toml ({rule.rule})"
        return ""

    def _step(self, party: Party, action: str, target: Path, *, acts: bool) -> PermissionStep:
        fits = [*self._fitting(party, action, target), *self._tools(party, action, acts=acts)]
        start = _default(party.path, action, target)
        if start.decision is Decision.DENY:  # only an allow opens what is closed by itself
            opening = (fit for fit in fits if fit.decision is Decision.ALLOW and _opens(party, action, target))
            start = next(opening, start)
        narrowing = [fit for fit in fits if fit.decision is not Decision.ALLOW]
        because = max((start, *narrowing), key=lambda fit: _STRICTNESS.index(fit.decision))
        return PermissionStep(path=str(party.path), decision=because.decision, because=because, fits=tuple(fits))

    def _fitting(self, party: Party, action: str, target: Path) -> Iterator[Fit]:
        for rule in self._rules:
            if rule.fits(party.path, action, target):
                yield Fit(source=f"rule {rule.number} of config.toml", says=str(rule.rule), decision=rule.rule.decision)
        for number, own in enumerate(party.permissions.rules, 1):
            if _is_meant(own.action, action) and (not own.object or Pattern(own.object, None).matches(target)):
                source = f"rule {number} of {party.path} itself"
                yield Fit(source=source, says=str(own), decision=Decision(own.decision))

    def _tools(self, party: Party, action: str, *, acts: bool) -> Iterator[Fit]:
        """What an agent was given, and its role has, counts as a rule; a role's tools are no bound of those below."""
        if not action.startswith(TOOL):
            return
        name = action.removeprefix(TOOL)
        if party.tools is not None and name not in party.tools:
            yield Fit(source=f"the tools of {party.path}", says=f"{name} is not among them", decision=Decision.DENY)
        role = party.path.role or "default"
        if acts and name not in self._roles.get(role, (name,)):
            source = f"[tools] {role} of config.toml"
            yield Fit(source=source, says=f"{name} is not among them", decision=Decision.DENY)


class _Compiled:
    """A rule with its patterns read."""

    def __init__(self, number: int, rule: Rule) -> None:
        self.number = number
        self.rule = rule
        self._subject = Pattern(rule.subject, None) if rule.subject else None
        self._object = Pattern(rule.object, None) if rule.object else None

    def is_about(self, subject: Path) -> bool:
        """Return whether it says something of what this agent does."""
        return self._subject is None or self._subject.matches(subject)

    def fits(self, subject: Path, action: str, target: Path) -> bool:
        return (
            _is_meant(self.rule.action, action)
            and (self._subject is None or self._subject.matches(subject))
            and (self._object is None or self._object.matches(target))
        )


def _is_meant(pattern: str, action: str) -> bool:
    return pattern in (EVERY, action) or (pattern == f"{TOOL}{EVERY}" and action.startswith(TOOL))


def _default(subject: Path, action: str, target: Path) -> Fit:
    """Return what holds where no rule says anything."""
    if action.startswith(TOOL):
        return Fit(source="default", says="an agent may use the tools it was given", decision=Decision.ALLOW)
    if not _within_reach(subject, target):
        return Fit(source="default", says="nothing goes from one user to another", decision=Decision.DENY)
    if action in _PRIVATE and scope_of(str(subject)) != scope_of(str(target)):
        says = f"what {scope_of(str(target))} keeps is its own"
        return Fit(source="default", says=says, decision=Decision.DENY)
    return Fit(source="default", says="agents of one user reach each other", decision=Decision.ALLOW)


def _opens(party: Party, action: str, target: Path) -> bool:
    """Return whether an allow can open this at all: between users only messages, whatever a rule says."""
    return action == MESSAGE or _are_one_users(party.path, target)


def _within_reach(subject: Path, target: Path) -> bool:
    """Return whether two paths are one user's, or the second is of a sub-user of the first's, which it administers."""
    administers = subject.root.kind is not Kind.SUBUSER and subject.user == target.user
    return administers or _are_one_users(subject, target)


def _are_one_users(subject: Path, target: Path) -> bool:
    """Return whether two paths are one user's. Two people's sub-users of one name are not one."""
    mine, theirs = subject.root, target.root
    if mine.kind is theirs.kind is Kind.SUBUSER:
        return mine == theirs
    return owner_of(subject) == owner_of(target)
