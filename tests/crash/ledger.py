"""What the outside world knows of a daemon: which messages it acknowledged, what it said, what its tools did.

The ledger is kept by the campaign's process, never by the daemon, and never changes its mind.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.mind import Errand

KINDS = ("lost", "doubled", "reordered", "repeated_tools", "broken")
OF_RESULTS = ("results_lost", "results_doubled", "orphans")  # of what agents ask of each other
OF_MEMORY = ("unprocessed", "processed_twice", "marked_unseen", "expired_uncurated", "sourceless")  # of what is learned
OF_MONEY = ("undercounted", "miscounted", "unfinished")  # of what calls of models cost
OF_ASKING = ("decisions_lost", "unapproved", "untold")  # of what a person decides
Finding = tuple[str, str]  # one of those kinds, and what was seen


@dataclass
class Sent:
    """A message as its sender knows it. `seq` is the number in its receipt; None: not acknowledged yet."""

    errand: Errand
    path: str
    key: str
    seq: int | None = None
    result: str | None = None


@dataclass
class Ledger:
    """Everything the daemon promised. `findings` are promises that it broke before the end.

    `kills` counts how often it was killed: whatever else ends it is its own fault.
    """

    sent: dict[str, Sent] = field(default_factory=dict)  # by the errand's name
    shown: dict[int, str] = field(default_factory=dict)  # replies whose confirmation was acknowledged, by number
    findings: list[Finding] = field(default_factory=list)
    resent: int = 0
    kills: int = 0

    @property
    def acknowledged(self) -> list[Sent]:
        """Messages with a receipt."""
        return [sent for sent in self.sent.values() if sent.seq is not None]

    def acknowledge(self, sent: Sent, seq: int, *, duplicate: bool, result: str | None) -> None:
        """Note a receipt: every one of a message names the same number, and only the first is no duplicate."""
        if sent.seq is not None:
            self.resent += 1
            if not duplicate or seq != sent.seq:
                self.findings.append(
                    ("doubled", f"{sent.errand} of number {sent.seq} was accepted again, as {seq} ({duplicate=})")
                )
        elif result is not None and f"ack {sent.errand.verb} {sent.errand.sender} {sent.errand.number}" not in result:
            self.findings.append(("broken", f"{sent.errand} was answered: {result!r}"))
        sent.seq = seq
        if result is not None:
            if sent.result not in (None, result):
                self.findings.append(("broken", f"{sent.errand} was answered {sent.result!r}, then {result!r}"))
            sent.result = result

    def fetch(self, seq: int, text: str) -> None:
        """Note that a reply was handed out: one that was confirmed never comes again."""
        if seq in self.shown:
            self.findings.append(("doubled", f"reply {seq} was handed out after its confirmation: {text!r}"))

    def confirm(self, seq: int, text: str) -> None:
        """Note that the daemon took our word that a reply was shown."""
        self.shown[seq] = text


def tool_lines(file: Path) -> Counter[str]:
    """Return how often each line stands in the tools' ledger file."""
    return Counter(file.read_text().splitlines()) if file.exists() else Counter()
