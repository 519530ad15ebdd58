"""Names of people, agents, accounts and places replaced by words that stay the same and say nothing.

One name is one pseudonym in all bundles of an installation, so that two reports can be compared; without the vault's
key nobody can try names until one fits.
"""

import getpass
import hashlib
import hmac
import re
import secrets
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from daycare.base.errors import DaycareError
from daycare.observe.redact import SECRET, names_secret, without_secrets
from daycare.ops.doctor.context import DoctorContext
from daycare.store.sqlite.inspection import words_in
from daycare.store.vault import open_vault

_ROWS_MAX: Final = 20_000  # of each kind of name: more people than one home can serve
_DIGITS: Final = 8
_SHORT: Final = 2  # a name of so few letters would garble every word
_PURPOSE: Final = "bug report"
# Parts of paths that say what a thing is and not whose; all else between two slashes is somebody's word.
_KINDS: Final = re.compile(
    "agent|app|cron|direct|gc|health|heartbeat|memory|search|sub|subuser|system|task|telegram|whatsapp|slack|web"
)
_COMMON: Final = re.compile(
    "agent|all|and|app|are|bot|cron|daycare|default|direct|fail|for|from|group|home|localhost|main|memory|none|off|owner"
    "|root|run|sub|system|task|telegram|test|the|user|users|warn|web|whatsapp|work"
)
_APART: Final = re.compile(r"[^\w-]+")
_JOINED: Final = re.compile(r"-?\w(?:[\w-]*\w)?")
_WORD: Final = re.compile(r"[^\W_]+")
_MAIL: Final = re.compile(r"(?:(?<![\w.+-])[\w.+-]++|[\w.+-]{1,64})@[\w-]+(?:\.[\w-]+)+")
_PHONE: Final = re.compile(r"(?<![\w.:-])\+\d[\d ()/-]{6,18}\d(?!\w)")
_JID: Final = re.compile(r"\b\d{5,}(?::\d+)?@(?:s\.whatsapp\.net|lid|g\.us)\b")
_ACCOUNT: Final = re.compile(r"\b([a-z][a-z0-9_-]{1,40}):(-?\d{4,}(?:[/:]\d+)*)(?![\w:])")
_HANDLE: Final = re.compile(r"(?<![\w.+-])@\w{3,}")
_PATH: Final = re.compile(r"(?<![\w.~:/-])/([\w-]+)/(agent|cron|task|subuser|app)/([\w.-]+)")
_HOST: Final = re.compile(r"(https?://)([^\s/:@\"']+)")
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WHOSE: Final = re.compile("identity|sender|chat|chat_name|target|recipient|phone|login")  # fields of accounts
_KNOWN_HOSTS: Final = re.compile(
    r"127\.0\.0\.1|localhost|api\.openai\.com|api\.anthropic\.com|openrouter\.ai|api\.telegram\.org|graph\.facebook\.com"
)
_ADDRESS: Final = re.compile(r"\b(?!127\.)(?:\d{1,3}\.){3}\d{1,3}\b(?!\.\d)")


class Pseudonyms:
    """Replaces what is known to be somebody's, and what looks like it."""

    def __init__(self, key: bytes, known: Iterable[tuple[str, str]], folders: Iterable[tuple[str, str]] = ()) -> None:
        """`known` are (kind, word), `folders` are (path, what stands for it), the longest first."""
        self._key = key
        self._folders = tuple(folders)
        self._kinds: dict[str, str] = {}
        for kind, words in known:
            for word in (words, *_APART.split(words)):  # of a name each part
                if len(word) > _SHORT and not _COMMON.fullmatch(word.lower()):
                    self._kinds.setdefault(word.lower(), kind)

    @classmethod
    def of(cls, context: DoctorContext) -> "Pseudonyms":
        """Return those of an installation."""
        known: list[tuple[str, str]] = []
        try:
            if context.inside is not None and context.inside.schema == context.inside.known:
                words = words_in(context.location, _ROWS_MAX)
                known += [("user", user) for user in words.users]
                known += [("name", name) for name in words.names]
                known += [("account", key.partition(":")[2]) for key in words.accounts]
                parts = {part for path in words.paths for part in path.split("/") if part}
                known += [
                    ("part", part) for part in sorted(parts) if not _KINDS.fullmatch(part) and not part.isdecimal()
                ]
        except DaycareError:
            pass  # a damaged database: what looks like a name is replaced all the same
        known += [("login", getpass.getuser())] if _named() else []
        known += [("host", socket.gethostname()), ("name", context.config.agent.name)]
        key = secrets.token_bytes(32)
        try:
            if context.home.key_file.exists():
                key = open_vault(context.home.key_file).derived(_PURPOSE)
        except DaycareError:
            pass  # one that nobody can read: these pseudonyms are for this report alone
        folders = [(str(context.home.path), "HOME-OF-DAYCARE"), (str(Path.home()), "~")]
        return cls(key, known, [each for each in folders if len(each[0]) > 1])

    def word(self, kind: str, text: str) -> str:
        """Return the pseudonym of a word; letters' case makes no difference."""
        digest = hmac.new(self._key, text.lower().encode(), hashlib.sha256).hexdigest()
        return f"{kind}-{digest[:_DIGITS]}"

    def text(self, text: str) -> str:
        """Return a text without secrets and without anybody's names."""
        text = without_secrets(text)
        for folder, stands in self._folders:
            text = re.sub(rf"{re.escape(folder)}(?![\w.-])", stands, text)
        text = _JID.sub(lambda found: self.word("account", found[0]), text)
        text = _MAIL.sub(lambda found: self.word("mail", found[0]), text)
        text = _PHONE.sub(lambda found: self.word("phone", re.sub(r"\D", "", found[0])), text)
        text = _HANDLE.sub(lambda found: f"@{self.word('account', found[0])}", text)
        text = _PATH.sub(self._path, text)
        text = _ACCOUNT.sub(lambda found: f"{found[1]}:{self.word('account', found[2])}", text)
        text = _HOST.sub(self._host, text)
        text = _ADDRESS.sub(lambda found: self.word("address", found[0]), text)
        return _JOINED.sub(self._joined, text)

    def document(self, value: Any) -> Any:
        """Return JSON in which every text, also of keys, is treated; fields that name a secret say nothing."""
        if isinstance(value, dict):
            return {self._field(str(key)): self._value(str(key), inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(inner) for inner in value]
        if isinstance(value, int) and not isinstance(value, bool):
            return self._single(str(value)) or value
        return self.text(value) if isinstance(value, str) else value

    def _field(self, key: str) -> str:
        """Return a field's name: one of the program's own stays, whatever word is in it."""
        return self.text(key) if key.lower() in self._kinds or not _FIELD.fullmatch(key) else key

    def _value(self, key: str, value: Any) -> Any:
        if names_secret(key):
            return SECRET
        if _WHOSE.fullmatch(key) and isinstance(value, str | int) and not isinstance(value, bool) and value:
            return self._single(str(value)) or self.word("account", str(value))
        return self.document(value)

    def _joined(self, found: "re.Match[str]") -> str:
        """Replace a word of letters, digits, - and _ as a whole, or else the words in it."""
        return self._single(found[0]) or _WORD.sub(lambda part: self._single(part[0]) or part[0], found[0])

    def _single(self, word: str) -> str:
        kind = self._kinds.get(word.lower())
        return "" if kind is None else self.word(kind, word)

    def _path(self, found: "re.Match[str]") -> str:
        user = found[1] if found[1] == "system" else self.word("user", found[1])
        return f"/{user}/{found[2]}/{self.word('part', found[3])}"

    def _host(self, found: "re.Match[str]") -> str:
        return found[0] if _KNOWN_HOSTS.fullmatch(found[2]) else found[1] + self.word("host", found[2])


class Plainly(Pseudonyms):
    """Takes out secrets, and leaves names as they are."""

    def __init__(self) -> None:
        super().__init__(b"", ())

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return without_secrets(text)

    def word(self, kind: str, text: str) -> str:
        """Return the word."""
        return text


def _named() -> bool:
    try:
        return bool(getpass.getuser())
    except (KeyError, OSError):  # a container's user without a name
        return False
