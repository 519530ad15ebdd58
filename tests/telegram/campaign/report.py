"""What a campaign found: broken promises by kind, and figures."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

KINDS: Final[Sequence[str]] = (  # each must be 0
    "lost",
    "doubled",
    "reordered",
    "astray",
    "mistold",
    "unanswered",
    "left",
    "confirmed_early",
    "strangers_in",
    "impatient",
    "outranked",
    "unformatted",
    "late",
    "broken",
)
SHOWN_MAX: Final = 20


@dataclass
class Report:
    """Findings and figures of one campaign. `kinds` are those of the findings that it looks for."""

    mode: str
    seed: int
    kinds: Sequence[str] = KINDS
    findings: list[tuple[str, str]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def find(self, kind: str, what: str) -> None:
        """Note a broken promise."""
        assert kind in self.kinds, kind
        self.findings.append((kind, what))

    @property
    def harm(self) -> int:
        """How many promises were broken."""
        return len(self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return counts and figures by name."""
        counts = Counter(kind for kind, _ in self.findings)
        return {"mode": self.mode, "seed": self.seed} | {kind: counts[kind] for kind in self.kinds} | self.figures


def say(line: str) -> None:
    """Report to whoever watches."""
    print(line, file=sys.stderr, flush=True)


def percentile(values: list[float], percent: int) -> float | None:
    """Return the nearest-rank percentile, rounded to milliseconds; None of nothing."""
    if not values:
        return None
    return round(sorted(values)[max(0, -(-len(values) * percent // 100) - 1)], 3)
