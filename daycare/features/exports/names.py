"""Names in records, as the place has them that an import goes to: paths, files, and who stands behind a text."""

import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

from msgspec.structs import replace

from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.limits import DOCUMENT_PROVENANCE_MAX, DOCUMENT_REASON_MAX_CHARS
from daycare.base.messages import File, Message, Part, ToolCall, ToolResult
from daycare.base.path import Kind, Path
from daycare.base.permission import OwnRule, Permissions, Rule
from daycare.features.exports.records import AgentRecord, Anything, DocumentRecord, JobRecord, ReceiptRecord, TurnRecord

Files = Callable[[int], int]  # from the number of a file to another, 0 for one that is not there

_READS_ON: Final = re.compile(r"(?<=read on with read_result, file )\d{1,18}(?=, from offset)")
_NAMES_FILE: Final = ("read_result", "send_file")  # tools whose argument `file` is such a number


class Renaming:
    """From the subtree `old` to the subtree `new`, a path of the same or another user.

    With `trusted` texts keep who stands behind them. Else nobody does: who wrote and approved them is told among their
    sources, and what they say of who an agent is waits for somebody to approve it.
    """

    def __init__(self, old: str, new: Path, *, trusted: bool = False) -> None:
        self._old, self._new = old, str(new)
        self._kind, self._name = new.kind, new.name
        self._users = f"/{old.split('/')[1]}/", f"/{new.user}/"
        self._trusted = trusted

    def path(self, text: str) -> str:
        """Return a path in its new place; what is no path of the subtree or its user stays."""
        if text == self._old or text.startswith(f"{self._old}/"):
            return self._new + text.removeprefix(self._old)
        mine, new = self._users
        return new + text.removeprefix(mine) if text.startswith(mine) else text

    def record(self, record: Anything, files: Files) -> Anything:
        """Return a record with its names as they are to be; `files` leads from places to ids."""
        match record:
            case AgentRecord():
                return self.agent(record)
            case TurnRecord():
                said = with_files(record.messages, files)
                return replace(record, messages=tuple(replace(it, sender=self.path(it.sender)) for it in said))
            case ReceiptRecord():
                return replace(record, sender=self.path(record.sender))
            case DocumentRecord():
                return self._document(record)
            case JobRecord():
                return self._job(record)
        return record

    def agent(self, it: AgentRecord) -> AgentRecord:
        """Return an agent with the paths in its rules as they are to be."""
        config = replace(it.config, permissions=self._permissions(it.config.permissions))
        return replace(it, config=config, narrowed=self._rules(it.narrowed))

    def rule(self, rule: Rule) -> Rule:
        """Return a rule of config.toml as it would be about the new place."""
        return replace(rule, subject=self.path(rule.subject), object=self.path(rule.object))

    def _permissions(self, permissions: Permissions) -> Permissions:
        return Permissions(rules=self._rules(permissions.rules))

    def _rules(self, rules: Iterable[OwnRule]) -> tuple[OwnRule, ...]:
        """What an agent may not do where it was, its copy may not do there either, nor in its own new place."""
        both = ((rule, replace(rule, object=self.path(rule.object))) for rule in rules)
        return tuple(dict.fromkeys(chain.from_iterable(both)))

    def _document(self, it: DocumentRecord) -> DocumentRecord:
        author, approver = self.path(it.author), self.path(it.approver)
        if self._trusted:
            return replace(it, author=author, approver=approver)
        stood = [f"written by {it.author}"] if ":" in it.author else []  # of authors only people have a colon
        stood += [f"approved by {it.approver}"] if it.approver else []
        if not stood:
            return replace(it, author=author)
        told = f"export: {', '.join(stood)}"[:DOCUMENT_REASON_MAX_CHARS]
        return replace(
            it,
            author=self._new if ":" in author else author,
            approver="",
            provenance=(*it.provenance[: DOCUMENT_PROVENANCE_MAX - 1], told),
        )

    def _job(self, it: JobRecord) -> JobRecord:
        own = f"{self._users[0]}cron/{it.name}" == self._old
        spec = replace(it.spec, target=self.path(it.spec.target), deliver=self.path(it.spec.deliver))
        name = self._name if own and self._kind is Kind.CRON else it.name
        bounds = replace(it.bounds, permissions=self._permissions(it.bounds.permissions))
        return replace(it, name=name, spec=spec, bounds=bounds, narrowed=self._rules(it.narrowed))


def path_of(text: str) -> Path:
    """Return a path of another installation, whose connectors need not be ours. Raises `InvalidError`."""
    return Path.parse(text, text.split("/")[2:3])


def with_files(messages: tuple[Message, ...], files: Files) -> tuple[Message, ...]:
    """Return messages that name files by other numbers, wherever they do."""
    return tuple(replace(message, parts=tuple(_part(part, files) for part in message.parts)) for message in messages)


def _part(part: Part, files: Files) -> Part:
    match part:
        case File():
            return replace(part, id=files(part.id))
        case ToolCall(name=name, arguments={"file": int(number)}) if name in _NAMES_FILE:
            return replace(part, arguments=part.arguments | {"file": files(number)})
        case ToolResult():
            return replace(part, text=_READS_ON.sub(lambda found: str(files(int(found[0]))), part.text))
    return part


def is_identity(record: DocumentRecord) -> bool:
    """Return whether a document says who somebody is: it is in no prompt before a person stands behind it."""
    return record.name in IDENTITY_DOCUMENTS
