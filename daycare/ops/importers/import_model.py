"""What an importer finds in another assistant's folder, in our terms but without our ids: who takes it decides those.

People, agents and everything that names them go by a `ref`, which is the other program's own name for them.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from daycare.base.cron import CronSpec
from daycare.base.limits import DAILY_LINE_MAX_CHARS
from daycare.base.path import Kind
from daycare.base.secrecy import hide

OWNER: Final = "owner"  # the ref of the person to whom the other installation belongs
MAIN: Final = "main"  # the ref of the agent with whom that person talks
TEXTS_MAX_CHARS: Final = 128 * 1024 * 1024  # of documents in one import: far more than may be kept
TALK_MAX_BYTES: Final = 64 * 1024 * 1024  # of conversations in one import
TALK_MAX_LINES: Final = 500_000


class ImportedItem(msgspec.Struct, frozen=True, kw_only=True):
    """Anything found. `source` says where, `changes` how it differs here from what it was there."""

    source: str
    changes: tuple[str, ...] = ()


class ImportedPerson(ImportedItem, frozen=True, kw_only=True):
    """Somebody who may write. `keys` are connector keys, `parent` the ref of who has let them in.

    `sure`: the other program says who they are; else, of accounts on a list, that is a guess.
    """

    ref: str
    name: str
    keys: tuple[str, ...] = ()
    parent: str = ""
    zone: str = ""
    sure: bool = True


class ImportedAgent(ImportedItem, frozen=True, kw_only=True):
    """An agent. Of helpers, searches and memory workers `parent` is the ref of whom they belong to.

    `name` is the last part of its path: of a helper or search its number, of a conversation the connector.
    `ended`: it has nothing more to do, and is kept for its history.
    """

    ref: str
    person: str
    kind: Kind
    name: str
    parent: str = ""
    title: str = ""
    description: str = ""
    ended: bool = False


class ImportedText(ImportedItem, frozen=True, kw_only=True):
    """A document of an agent, or, with `agent` empty, of all agents of a person. `name` is a path of documents."""

    person: str
    name: str
    text: str
    agent: str = ""


class ImportedSkill(ImportedItem, frozen=True, kw_only=True):
    """A folder of a skill with all its files, by their paths."""

    name: str
    files: Mapping[str, bytes]


class ImportedJob(ImportedItem, frozen=True, kw_only=True):
    """A scheduled job. `target` is the ref of an agent, `deliver` the connector key of who gets the answer."""

    ref: str
    person: str
    name: str
    spec: CronSpec
    paused: bool = False
    target: str = ""
    deliver: str = ""


class ImportedSubscription(ImportedItem, frozen=True, kw_only=True):
    """That an agent wants to have signals. In `pattern` refs of agents stand where our paths have to."""

    agent: str
    pattern: str
    silent: bool = False


class ImportedSecret(ImportedItem, frozen=True, kw_only=True):
    """A key of a provider or connector, under the name that it has here. From now on nothing shows its value."""

    name: str
    value: str

    def __post_init__(self) -> None:
        hide(self.value)

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"


class ImportedSetting(ImportedItem, frozen=True, kw_only=True):
    """What to write into config.toml: a section, a key, a value."""

    section: str
    key: str
    value: str


class ImportLeftOut(ImportedItem, frozen=True, kw_only=True):
    """What is not taken, and why."""

    what: str
    why: str


class ImportedLine(msgspec.Struct, frozen=True):
    """What somebody said in a conversation."""

    at_ms: int
    speaker: str
    text: str


@dataclass
class ImportModel:
    """All that was found. `talks` are conversations by the ref of their agent."""

    product: str
    people: list[ImportedPerson] = field(default_factory=list)
    agents: list[ImportedAgent] = field(default_factory=list)
    texts: list[ImportedText] = field(default_factory=list)
    skills: list[ImportedSkill] = field(default_factory=list)
    jobs: list[ImportedJob] = field(default_factory=list)
    subscriptions: list[ImportedSubscription] = field(default_factory=list)
    secrets: list[ImportedSecret] = field(default_factory=list)
    settings: list[ImportedSetting] = field(default_factory=list)
    left: list[ImportLeftOut] = field(default_factory=list)
    talks: dict[str, list[ImportedLine]] = field(default_factory=lambda: defaultdict(list))
    text_bytes: int = 0
    skill_bytes: int = 0
    talk_bytes: int = 0
    talk_lines: int = 0
    talks_left: int = 0

    def leave(self, what: str, source: str, why: str) -> None:
        """Say that something is not taken."""
        self.left.append(ImportLeftOut(what=what, source=source, why=why))

    def keep(self, text: ImportedText) -> None:
        """Add a document; past the bound it is left."""
        self.text_bytes += len(text.text)
        if self.text_bytes > TEXTS_MAX_CHARS:
            self.leave(text.name, text.source, f"over {TEXTS_MAX_CHARS:,} characters are not taken at once")
        else:
            self.texts.append(text)

    def say(self, agent: str, at_ms: int, speaker: str, text: str) -> None:
        """Add to a conversation what was said, as one line; past the bounds it is only counted."""
        line = " ".join(text.split())
        if not line:
            return
        line = line[:DAILY_LINE_MAX_CHARS]
        if self.talk_bytes + len(line) > TALK_MAX_BYTES or self.talk_lines >= TALK_MAX_LINES:
            self.talks_left += 1
            return
        self.talk_bytes += len(line)
        self.talk_lines += 1
        self.talks[agent].append(ImportedLine(at_ms, speaker, line))

    def secret(self, name: str, value: object, source: str) -> None:
        """Note a secret, unless it only names where one is (`${NAME}`) or stands for one."""
        if isinstance(value, str) and len(value.strip()) >= 8 and not _stands_for_one(value):
            self.secrets.append(ImportedSecret(name=name, value=value.strip(), source=source))


def _stands_for_one(value: str) -> bool:
    text = value.strip()
    return text.startswith(("${", "$", "<", "env:")) or any(word in text.upper() for word in ("YOUR_", "REPLACE_ME"))
