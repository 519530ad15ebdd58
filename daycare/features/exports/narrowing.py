"""What narrows an agent where it is, carried to where it goes: it may never do more there than it might here.

Its own settings are in its record. What an installation says of its path is not: rules of config.toml go with it as
rules of its own, and those that keep others from it have to be there before it comes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from daycare.base.consent import CHANGES, ApprovalsSection, Consent
from daycare.base.errors import ConflictError
from daycare.base.path import Kind, Path, Pattern
from daycare.base.permission import EVERY, SCHEDULE, SPAWN, WRITE_MEMORY, Decision, OwnRule, Permissions, Rule
from daycare.base.scope import user_in
from daycare.features.exports.names import Renaming, path_of
from daycare.features.exports.records import AgentRecord, Anything, JobBounds, JobRecord
from daycare.rules.consent import within
from daycare.rules.permissions import Party, Rules
from daycare.store.records import AgentConfig
from daycare.store.records_bounds import bound_by
from daycare.tools.catalogue import TASKS_ONLY

_STRICTNESS: Final = list(Decision)
_CONSENTS: Final = list(Consent)
_TALKS: Final = (Kind.CONNECTOR, Kind.AGENT)  # may do the same, so that one can become the other


class _Bound(NamedTuple):
    """A rule about the agents at `subject`, a pattern, or at that path and below it; and what it says of them."""

    subject: Pattern | str
    says: OwnRule

    def covers(self, path: Path) -> bool:
        return within(str(path), self.subject) if isinstance(self.subject, str) else self.subject.matches(path)

    def begins_below(self, path: Path) -> bool:
        if isinstance(self.subject, str):
            return within(self.subject, str(path))
        return self.subject.begins_below(path)


class Leaving:
    """Adds to records of an export what config.toml says of their paths. `paths` are the agents', the root's first.

    What will hold at `to` as well, the root of a copy in this installation, stays where it is.
    """

    def __init__(self, rules: Rules, approvals: ApprovalsSection, paths: Sequence[Path], to: Path | None) -> None:
        self._root = paths[0]
        self._bounds = [bound for bound in _bounds(rules, approvals) if to is None or not self._stays(bound, to)]
        self._narrowed: dict[str, list[OwnRule]] = {}
        for bound in self._bounds:
            for path in _nearest(bound, paths):
                self._narrowed.setdefault(str(path), []).append(bound.says)
        self._guards = tuple(rule for rule in rules.all if self._guards_it(rule))

    def record(self, record: Anything) -> Anything:
        """Return a record with what narrows it."""
        match record:
            case AgentRecord():
                path = f"{self._root}{record.path}"
                guards = self._guards if not record.path else ()
                return replace(record, narrowed=_once(self._narrowed.get(path, ())), guards=guards)
            case JobRecord():
                at = Path.cron(self._root.user, record.name)
                return replace(record, narrowed=_once(it.says for it in self._bounds if _nearest(it, [at])))
        return record

    def _stays(self, bound: _Bound, to: Path) -> bool:
        return bound.covers(self._root) and bound.covers(to) and not _names(bound.says.object, self._root)

    def _guards_it(self, rule: Rule) -> bool:
        """Whether a rule keeps others from the agent, or from one below it."""
        itself = rule.subject and within(_base(rule.subject), str(self._root))
        return rule.decision is not Decision.ALLOW and not itself and _names(rule.object, self._root)


class Arriving:
    """Binds what records become as it was bound where it comes from. `paths` are the agents' new ones."""

    def __init__(self, rules: Rules, approvals: ApprovalsSection, renaming: Renaming, paths: Sequence[Path]) -> None:
        self._rules = rules
        self._approvals = approvals
        self._renaming = renaming
        self._paths = paths
        self._configs: dict[str, AgentConfig] = {}

    def check(self, root: AgentRecord, source: str) -> None:
        """Refuse a copy that could not be as narrow, or whose memory others could reach who cannot reach this one's.

        Raises `ConflictError` COPY_KIND, COPY_GUARDED.
        """
        new = self._paths[0]
        kind = path_of(source).kind
        if kind is not new.kind and not (kind in _TALKS and new.kind in _TALKS):
            raise ConflictError(
                "COPY_KIND",
                f"importing {source} as {new}: it is of the kind {kind}, and one of the kind {new.kind} may do more",
                hint=f"--as /{new.user}/{kind}/NAME" if kind in _ROOTS else "copy the agent that it belongs to",
            )
        opened = any(it.decision is Decision.ALLOW and Pattern(it.object, None).matches(new) for it in self._rules.all)
        for rule in root.guards:
            wanted = self._renaming.rule(rule)
            foreign = bool(rule.subject) and user_in(wanted.subject) not in (new.user, user_in(source))
            if foreign and not opened:
                continue  # nothing goes from one user to another by itself
            if not any(_is_as_strict(there, wanted) for there in self._rules.all):
                raise ConflictError(
                    "COPY_GUARDED",
                    f"importing {source} as {new}: where it comes from, the rule `{rule}` keeps others from it,"
                    " and no rule of config.toml does so here",
                    hint=f'add [[rules]] action = "{wanted.action}", decision = "{wanted.decision}",'
                    f' object = "{wanted.object}"' + (f', subject = "{wanted.subject}"' if wanted.subject else ""),
                )

    def agent(self, record: AgentRecord, path: Path) -> AgentRecord:
        """Return an agent with all that narrows it among its settings."""
        config = bound_by(record.config, AgentConfig(permissions=Permissions(rules=record.narrowed)))
        config = replace(config, approvals=self._asked(config.approvals))
        self._configs[str(path)] = config
        return replace(record, config=config, narrowed=(), guards=())

    def job(self, record: JobRecord) -> JobRecord:
        """Return a job whose agent may do no more than its maker, nor than the job's agent where it comes from."""
        own = record.bounds
        config = AgentConfig(tools=own.tools, permissions=own.permissions, approvals=own.approvals)
        config = bound_by(config, AgentConfig(permissions=Permissions(rules=record.narrowed)))
        for above in self._line(record):
            tools = None if above.tools is None else (*above.tools, TASKS_ONLY)
            config = bound_by(config, replace(above, tools=tools))
        asked = None if config.approvals is Consent.AUTO else self._asked(config.approvals)
        bounds = JobBounds(tools=config.tools, permissions=config.permissions, approvals=asked)
        return replace(record, bounds=bounds, narrowed=())

    def refused(self, record: JobRecord) -> str:
        """Return why the agent that made a job may not make it here, "" if it may, or if a person made it."""
        if record.agent < 0:
            return ""
        maker: Path | None = self._paths[record.agent]
        line = []
        while maker is not None:
            config = self._configs.get(str(maker), AgentConfig())
            line.append(Party(maker, config.permissions, config.tools))
            maker = maker.parent
        user = self._paths[0].user
        target = path_of(record.spec.target) if record.spec.target else Path.cron(user, record.name)
        wanted = [(SCHEDULE, target)] + ([(SPAWN, Path.task(user, record.spec.task))] if record.spec.task else [])
        verdicts = (self._rules.decide(line, action, at) for action, at in wanted)
        return next((verdict.reason for verdict in verdicts if verdict.decision is not Decision.ALLOW), "")

    def _line(self, record: JobRecord) -> Iterator[AgentConfig]:
        """Yield the settings that bind a job's agent: those of its maker and above, or its own."""
        root = self._paths[0]
        at: Path | None = self._paths[record.agent] if record.agent >= 0 else root
        if record.agent < 0 and (root.kind is not Kind.CRON or root.name != record.name):
            return
        while at is not None:
            if (config := self._configs.get(str(at))) is not None:
                yield config
            at = at.parent

    def _asked(self, policy: Consent | None) -> Consent | None:
        """Return when changes are asked for: once in a conversation is less where others here are asked always."""
        stricter = any(self._approvals.of(tool) is Consent.ALWAYS for tool in CHANGES)
        return Consent.ALWAYS if policy is Consent.SESSION and stricter else policy


_ROOTS: Final = (Kind.AGENT, Kind.SUBUSER, Kind.APP, Kind.TASK, Kind.CRON)


def _bounds(rules: Rules, approvals: ApprovalsSection) -> Iterator[_Bound]:
    """Yield what config.toml says of some paths alone, and not of all."""
    for rule in rules.all:
        if rule.subject and rule.decision is not Decision.ALLOW:
            decision: Literal["ask", "deny"] = "deny" if rule.decision is Decision.DENY else "ask"
            says = OwnRule(action=rule.action, decision=decision, object=rule.object)
            yield _Bound(Pattern(rule.subject, None), says)
    for each in approvals.rules.values():
        stricter = any(_CONSENTS.index(each.policy) > _CONSENTS.index(approvals.of(tool)) for tool in each.tools)
        if each.agents and stricter:
            yield _Bound(each.agents, OwnRule(action=WRITE_MEMORY, decision="ask"))


def _nearest(bound: _Bound, paths: Sequence[Path]) -> list[Path]:
    """Return the paths that a rule has to be written for, so that it holds for all it is about, at or below `paths`."""
    if bound.covers(paths[0]):
        return [paths[0]]
    if not bound.begins_below(paths[0]):
        return []
    covered = [path for path in paths if bound.covers(path)]
    top = [path for path in covered if not any(path != other and path.is_under(other) for other in covered)]
    return top or [path for path in paths if bound.begins_below(path)][-1:]


def _names(pattern: str, path: Path) -> bool:
    """Return whether a pattern is about a path, or something below it, and not about more."""
    return bool(pattern) and within(_base(pattern), str(path))


def _base(pattern: str) -> str:
    return pattern.removesuffix("/**")


def _is_as_strict(there: Rule, wanted: Rule) -> bool:
    """Return whether a rule that is there keeps away whom the wanted one would."""
    return (
        there.decision is not Decision.ALLOW
        and _STRICTNESS.index(there.decision) >= _STRICTNESS.index(wanted.decision)
        and there.action in (EVERY, wanted.action)
        and _is_as_wide(there.subject, wanted.subject)
        and _is_as_wide(there.object, wanted.object)
    )


def _is_as_wide(there: str, wanted: str) -> bool:
    if there.endswith("/**") and wanted:
        return within(_base(wanted), _base(there))
    return there in ("", wanted)


def _once(rules: Iterable[OwnRule]) -> tuple[OwnRule, ...]:
    return tuple(dict.fromkeys(rules))
