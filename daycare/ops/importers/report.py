"""What an import came to: one item for each thing that was found, shown, kept in the home, and without any secret."""

import os
from collections import Counter
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from daycare.base.errors import UnavailableError
from daycare.base.secrecy import without_secrets
from daycare.store.home import Home

Outcome = Literal["taken", "changed", "there", "left"]

FOLDER: Final = "imports"
_WHAT: Final = ("person", "agent", "document", "skill", "job", "subscription", "conversation", "key", "other")


class ImportItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing. `taken` as it was, `changed` as `notes` say, `left` for the reason there, or `there` already.

    `target` is where it is here. `findings` are what is suspicious in its text.
    """

    what: str
    source: str
    outcome: Outcome
    target: str = ""
    notes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """An import. `settings` are lines for config.toml, `keys` secrets to be added by hand, `held` documents that stand
    in no prompt before somebody approves them, `backup` what was made before, `file` where this is kept.
    """

    product: str
    path: str
    user: str
    dry_run: bool
    at_ms: int
    items: tuple[ImportItem, ...]
    settings: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    backup: str = ""
    file: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """How many items there are of each outcome."""
        found = Counter(item.outcome for item in self.items)
        return {outcome: found[outcome] for outcome in ("taken", "changed", "there", "left")}

    def document(self) -> dict[str, Any]:
        """Return it as JSON; nothing in it looks like a secret."""
        built: dict[str, Any] = _clean(msgspec.to_builtins(self))
        return built | {"counts": self.counts}


def save(home: Home, report: ImportReport) -> Path:
    """Keep a report in the home, mode 0600; return where."""
    folder = home.path / FOLDER
    file = folder / f"{report.product}-{report.at_ms}.json"
    number = 1
    while file.exists():
        number += 1
        file = folder / f"{report.product}-{report.at_ms}-{number}.json"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as opened:
            opened.write(msgspec.json.format(msgspec.json.encode(report.document()), indent=1))
            opened.write(b"\n")
    except OSError as error:
        what = f"keeping the report {file}: {error.strerror or error}"
        raise UnavailableError("REPORT_UNWRITABLE", what, hint="everything else was done") from error
    return file


def lines(document: dict[str, Any], *, everything: bool = False) -> list[str]:
    """Return a report's JSON as lines for people: what was left and changed whole, what was taken in short."""
    would = "would be " if document["dry_run"] else ""
    found: list[str] = []
    groups = (("taken", f"{would}taken"), ("changed", f"{would}taken, and changed"), ("there", "there already"))
    for outcome, words in (*groups, ("left", "left")):
        items = [item for item in document["items"] if item["outcome"] == outcome]
        if not items:
            continue
        found.append(f"{words}: {_counted(items)}")
        if outcome != "there" or everything:
            found += [line for item in items for line in _told(item)]
    if document["held"]:
        found.append("in no prompt before you stand behind them (read them; then --approve, or edit them): ")
        found[-1] += ", ".join(document["held"])
    if document["settings"]:
        found += ["for config.toml, as it was there:", *(f"  {line}" for line in document["settings"])]
    if document["keys"]:
        found.append("keys to be added (or --with-keys takes them):")
        found += [f"  daycare keys add {name}" for name in document["keys"]]
    if document["backup"]:
        found.append(f"before it a backup was made: {document['backup']}")
    if document["file"]:
        found.append(f"this report: {document['file']}")
    if document["dry_run"]:
        found.append("nothing was written: this was a dry run")
    return found


def _told(item: dict[str, Any]) -> list[str]:
    arrow = f" -> {item['target']}" if item["target"] else ""
    told = [f"  {item['what']} {item['source']}{arrow}"]
    told += [f"      {note}" for note in item["notes"]]
    return told + [f"      suspicious: {each}" for each in item["findings"]]


def _counted(items: list[dict[str, Any]]) -> str:
    found = Counter(item["what"] for item in items)
    plural = {"person": "people"}
    ordered = sorted(found, key=lambda what: _WHAT.index(what) if what in _WHAT else len(_WHAT))
    return ", ".join(f"{found[what]} {what if found[what] == 1 else plural.get(what, f'{what}s')}" for what in ordered)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: _clean(each) for name, each in value.items()}
    return [_clean(each) for each in value] if isinstance(value, list | tuple) else value
