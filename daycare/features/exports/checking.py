"""What an export says, checked record by record: each is of its kind, in its place, and names only what is there.

After this nothing in it can surprise whoever takes it in: places are dense, so none is given twice; paths and documents
have names that are names; numbers fit where they are kept.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from daycare.base.budget import split_name
from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.documents import Attribution, Layer, check_attribution, check_text, digest
from daycare.base.errors import DaycareError, InvalidError
from daycare.base.limits import (
    AGENT_CONFIG_MAX_BYTES,
    BEHAVIOUR_STATE_MAX_BYTES,
    EXPORT_FILES_MAX,
    EXPORT_TURNS_MAX,
    RULES_MAX,
    TIMERS_MAX_PER_AGENT,
)
from daycare.base.messages import EnvelopeKind, File, Origin
from daycare.base.path import Kind, Path, check_name
from daycare.base.permission import OwnRule, Permissions, own_flaws
from daycare.base.times import is_moment, is_time
from daycare.features.exports.names import path_of
from daycare.features.exports.records import (
    AgentRecord,
    Anything,
    DocumentRecord,
    FileRecord,
    JobRecord,
    MarkRecord,
    MemoryRecord,
    ReceiptRecord,
    ReminderRecord,
    SessionRecord,
    SummaryRecord,
    TurnRecord,
)
from daycare.rules.consent import within
from daycare.rules.document_paths import parse

EXPORT_AGENTS_MAX: Final = 10_000  # of one subtree: their ids are in memory while they come in
EXPORT_MEMORIES_MAX: Final = 100_000  # other writes wait while they get into the index, 0.1 ms for each
EXPORT_OTHERS_MAX: Final = 100_000  # records of any other kind

_MOST: Final[dict[type, int]] = {
    AgentRecord: EXPORT_AGENTS_MAX,
    TurnRecord: EXPORT_TURNS_MAX,
    ReceiptRecord: EXPORT_TURNS_MAX,
    MemoryRecord: EXPORT_MEMORIES_MAX,
    FileRecord: EXPORT_FILES_MAX,
}
_WORDS: Final = {Layer.AGENT: "agent", Layer.USER: "shared", Layer.GLOBAL: "global", Layer.WORKSPACE: "workspace",
                 Layer.PROJECT: "project"}  # fmt: skip
_FORGOTTEN: Final = "[forgotten]"  # the text of what was forgotten; its hash is that of what it said
_CHILDREN: Final = (Kind.SUB, Kind.SEARCH, Kind.MEMORY)
_MENTIONS_MAX: Final = 2**53
_REMINDS: Final = (EnvelopeKind.NOTICE, EnvelopeKind.TEXT)


class Checker:
    """Takes the records in their order.

    `place` reads what stands behind the root's path, where it is to be; `source` is the root's where it was.
    """

    def __init__(self, place: Callable[[str], Path], source: str) -> None:
        self._place = place
        parts = source.split("/")
        if len(parts) < 3 or parts[0] or not all(parts[1:]):  # its connector need not be one of ours
            raise InvalidError("EXPORT_INVALID", f"reading the export: it was made of {source!a}, which is not a path")
        self._user = f"/{parts[1]}/"
        self._source = source
        self.agents: list[AgentRecord] = []
        self.paths: list[Path] = []
        self.counts: Counter[str] = Counter()
        self.identity: list[str] = []  # documents that say who somebody is
        self._many: Counter[type] = Counter()
        self._turns = array("i")  # the agent of each
        self._sessions = array("i")
        self._tiers = bytearray()  # of each memory: its first letter
        self._named: list[int] = []  # log entries that memories name, which may come later
        self._superseded = 0  # the largest number of a fact that is named
        self._reminders: Counter[int] = Counter()
        self._files = 0  # the largest number of a file that is named
        self._last: tuple[object, ...] = ()
        self._hash = ""  # of the document version before

    def take(self, record: Anything | FileRecord) -> None:
        """Check one record. Raises `InvalidError` that says what is wrong with it."""
        kind = type(record)
        self._many[kind] += 1
        _must(
            self._many[kind] <= _MOST.get(kind, EXPORT_OTHERS_MAX),
            f"there are over {_MOST.get(kind, EXPORT_OTHERS_MAX)}",
        )
        if self._many[kind] == 1:
            self._last = ()
        self.counts[str(kind.__struct_config__.tag)] += 1
        match record:
            case AgentRecord():
                self._agent(record)
            case SessionRecord():
                self._its(record.agent)
                self._rises(record.agent, record.session)
                _must(record.session <= self.agents[record.agent].session, "its agent has not had this session yet")
            case TurnRecord():
                self._turn(record)
            case ReceiptRecord():
                self._its(record.agent)
                _must(max(record.turn, record.trace) <= len(self._turns), "it is of a turn that is not there")
            case SummaryRecord():
                self._summary(record)
            case DocumentRecord():
                self._document(record)
            case MemoryRecord():
                self._memory(record)
            case MarkRecord():
                self._its(record.agent)
                self._rises(record.agent)
                self._is_log(record.through)
            case ReminderRecord():
                self._its(record.agent)
                _must(record.origin is Origin.TIMER and record.kind in _REMINDS, "it is no reminder")
                self._reminders[record.agent] += 1
                _must(
                    self._reminders[record.agent] <= TIMERS_MAX_PER_AGENT, f"its agent has over {TIMERS_MAX_PER_AGENT}"
                )
            case JobRecord():
                self._job(record)
            case FileRecord():
                self._file(record)

    def end(self) -> None:
        """Check what could not be before everything was there."""
        _must(bool(self.agents), "there is no agent in it")
        for number in self._named:
            self._is_log(number)
        _must(self._superseded <= len(self._tiers), f"memory {self._superseded} is named and not in it")
        _must(self._files <= self._many[FileRecord], f"a message names file {self._files}, which is not in it")

    # -- one kind each -------------------------------------------------------------------------------------------------

    def _agent(self, it: AgentRecord) -> None:
        _must((it.path == "") == (not self.agents), "the root comes first, and once")
        self._rises(it.path)
        path = self._place(it.path)
        if self.agents:
            _must(path.kind in _CHILDREN, f"{path} is nobody's helper")
        _must(len(msgspec.json.encode(it.config)) <= AGENT_CONFIG_MAX_BYTES, "its settings are too long")
        _must(it.keeps is None or _is_json(it.keeps), "what it keeps is no JSON, or too long")
        _must(path.kind is Kind.APP or not it.config.behaviour, "only an app has a behaviour")
        self._narrows(it.narrowed, it.limits)
        _must(not it.guards or not it.path, "rules that keep others away stand with the root")
        self.agents.append(it)
        self.paths.append(path)

    def _turn(self, it: TurnRecord) -> None:
        self._its(it.agent)
        _must(it.session <= self.agents[it.agent].session, "its agent has not had its session yet")
        _must(not it.replaced_by or it.replaced_by > len(self._turns) + 1, "what stands in its place comes before it")
        self._turns.append(it.agent)
        self._sessions.append(it.session)
        _must(it.trace <= len(self._turns), f"it came of turn {it.trace}, which comes later")
        for message in it.messages:
            _must(is_moment(message.at_ms), "the time of a message is invalid")
            for part in message.parts:
                if isinstance(part, File):
                    _must(part.id >= 0, "a file has no number below 0")
                    self._files = max(self._files, part.id)

    def _summary(self, it: SummaryRecord) -> None:
        self._its(it.agent)
        self._rises(it.agent, it.session, it.through)
        known = it.through <= len(self._turns)
        its = known and (self._turns[it.through - 1], self._sessions[it.through - 1]) == (it.agent, it.session)
        _must(its, f"turn {it.through} is not of this session")

    def _document(self, it: DocumentRecord) -> None:
        of_agent = it.layer is Layer.AGENT
        _must((it.agent >= 0) == of_agent, f"it is of the layer {it.layer} and of agent {it.agent}")
        if of_agent:
            self._its(it.agent)
        address = parse(f"{_WORDS[it.layer]}/{it.name}")
        _must(address.name == it.name and it.layer in address.layers, f"{it.name!a} is not a name of such a document")
        line = (list(Layer).index(it.layer), it.agent, it.name)
        if self._last[:3] == line:
            _must(self._last[3] == it.version - 1, f"version {it.version} does not follow the one before it")
        else:
            _must(it.version == 1, f"{it.name} does not begin with version 1")
            self._rises(*line)
            self._hash = ""
            if it.name in IDENTITY_DOCUMENTS:
                self.identity.append(it.name if of_agent else f"{_WORDS[it.layer]}/{it.name}")
        self._last = (*line, it.version)
        what = f"{it.name}, version {it.version}"
        check_attribution(
            Attribution(
                origin=it.origin, author=it.author, approver=it.approver, reason=it.reason, provenance=it.provenance
            ),
            what,
        )
        if it.text is not None:
            check_text(it.text, what)
        hash_ = digest(it.text)
        if it.hash and it.hash != hash_:
            _must(it.text == _FORGOTTEN and _is_hash(it.hash), f"the text of {what} has another hash")
            hash_ = it.hash
        _must(hash_ != self._hash, f"{what} changes nothing")
        self._hash = hash_

    def _memory(self, it: MemoryRecord) -> None:
        self._its(it.agent)
        _must(it.turn <= len(self._turns), f"it came of turn {it.turn}, which is not there")
        _must((it.fact is not None) == (it.tier == "fact"), "only a fact has what facts have")
        _must((it.entity is not None) == (it.tier == "entity"), "only an entity has what entities have")
        _must(it.tier != "log" or not it.sources, "a log entry has no sources")
        for source in it.sources:
            self._its(source.agent)
            _must(1 <= source.turn <= len(self._turns), "a source is of no turn that is there")
            if source.memory:
                self._named.append(source.memory)
        times: list[int | None] = []
        if it.fact is not None:
            times += [it.fact.valid_from_ms, it.fact.valid_until_ms]
            _must(it.fact.superseded_by >= 0, "it is superseded by no fact")
            self._superseded = max(self._superseded, it.fact.superseded_by)
        if it.entity is not None:
            times += [it.entity.first_ms, it.entity.last_ms]
            _must(0 <= it.entity.mentions <= _MENTIONS_MAX, "it was mentioned more often than anybody can")
        _must(all(time is None or is_time(time) for time in times), "one of its times is invalid")
        self._tiers += it.tier[:1].encode()

    def _job(self, it: JobRecord) -> None:
        if it.agent != -1:
            self._its(it.agent)
        check_name(it.name, "name of a job")
        self._rises(it.name)
        it.spec.checked()
        for path in filter(None, (it.spec.target, it.spec.deliver)):
            _must(not path.startswith("/") or path.startswith(self._user), f"it is for {path[:80]!a}, of another user")
        its = within(it.spec.target, self._source) if it.spec.target else self._source == f"{self._user}cron/{it.name}"
        _must(it.agent >= 0 or its, "a person made it, and it is for none of these agents")
        if it.spec.target:
            path_of(it.spec.target)
        self._narrows((*it.narrowed, *it.bounds.permissions.rules), it.limits)

    def _file(self, it: FileRecord) -> None:
        _must(bool(it.of) == bool(it.turn) and it.turn <= len(self._turns), "it is of no turn that is there")
        _must(_is_hash(it.sha256), "its hash is invalid")

    # -- what they share -----------------------------------------------------------------------------------------------

    def _narrows(self, rules: tuple[OwnRule, ...], limits: Mapping[str, int]) -> None:
        wrong = next(own_flaws(Permissions(rules=rules[:RULES_MAX])), "")
        _must(not wrong and len(rules) <= 2 * RULES_MAX, wrong or "it has too many rules")
        for name in limits:
            split_name(name)

    def _its(self, agent: int) -> None:
        _must(agent < len(self.agents), f"there is no agent {agent}")

    def _is_log(self, place: int) -> None:
        _must(
            place == 0 or (place <= len(self._tiers) and self._tiers[place - 1] == ord("l")), f"{place} is no log entry"
        )

    def _rises(self, *key: object) -> None:
        """Each comes once, in order."""
        before = self._last[: len(key)]
        _must(not before or before < key, f"{key} does not come after {before}")
        self._last = key


def checked(take: Callable[[Anything | FileRecord], None]) -> Callable[[Anything | FileRecord], None]:
    """Let every refusal be one of the export, whatever rule it comes from."""

    def taking(record: Anything | FileRecord) -> None:
        try:
            take(record)
        except DaycareError as error:
            raise InvalidError("EXPORT_INVALID", error.message) from None

    return taking


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return len(text.encode()) <= BEHAVIOUR_STATE_MAX_BYTES


def _is_hash(text: str) -> bool:
    return len(text) == 64 and not text.strip("0123456789abcdef")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidError("EXPORT_INVALID", what)
