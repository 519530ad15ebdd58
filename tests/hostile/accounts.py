"""What the daemon says of everything that came over a connector: nothing may vanish without a word.

An item that connectors hand to the flow has an outcome, and a row that fits it; what is handed to nobody has a line in
the log.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from daycare.base.connector import Inbound, Outcome, Unreadable
from daycare.flow import Intake
from daycare.testing.daemon import TestDaemon

DEAD: Final = "SELECT 1 FROM dead_letters WHERE source = 'intake' AND trace = ?"
ROW: Final = "SELECT 1 FROM inbox WHERE key = ?"
STRANGER: Final = "SELECT 1 FROM strangers WHERE connector_key = ?"


class Accounts:
    """The outcomes of what was handed to the flow, by key; the same key may come again."""

    def __init__(self) -> None:
        self._items: dict[str, tuple[str, Inbound | Unreadable, Outcome]] = {}

    def note(self, connector: str, items: Sequence[Inbound | Unreadable], outcomes: Sequence[Outcome]) -> None:
        """Take note of what came of items; that one was there already says nothing new of it."""
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.state != "repeated" or item.key not in self._items:
                self._items[item.key] = connector, item, outcome

    def said(self, house: TestDaemon, key: str) -> str:
        """Return what became of an item, empty if nothing shows it: an outcome whose row is not there is none."""
        if key not in self._items:
            return ""
        connector, item, outcome = self._items[key]
        asked: dict[str, tuple[str, str]] = {
            "accepted": (ROW, key), "repeated": (ROW, key), "unreadable": (DEAD, f"{connector}:{key}"),
            "stranger": (STRANGER, (item.chat or item.sender) if isinstance(item, Inbound) else ""),
        }  # fmt: skip
        if outcome.state in asked and not _there(house, *asked[outcome.state]):
            return ""
        return outcome.state


@contextmanager
def accounts() -> Iterator[Accounts]:
    """Keep accounts of every daemon that is made within this block."""
    found = Accounts()
    receive = Intake.receive

    async def receives(
        self: Intake, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str = ""
    ) -> list[Outcome]:
        outcomes = await receive(self, connector, batch, cursor)
        found.note(connector, batch, outcomes)
        return outcomes

    with patch.object(Intake, "receive", receives):
        yield found


def logged(folder: Path, event: str, field: str) -> Counter[Any]:
    """Return what stands in a field of the log's lines of one event, and how often."""
    lines = [json.loads(line) for line in (folder / "daycare.log").read_bytes().splitlines()]
    return Counter(line.get(field) for line in lines if line.get("event") == event)


def _there(house: TestDaemon, sql: str, value: str) -> bool:
    return house.store._reader.execute(sql, (value,)).fetchone() is not None
