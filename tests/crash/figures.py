"""What a campaign counted, by name."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.crash.ledger import KINDS, OF_ASKING, OF_MEMORY, OF_MONEY, OF_RESULTS


@dataclass
class Figures:
    """What a campaign counted."""

    mode: str
    seed: int
    kills: int = 0
    acknowledged: int = 0
    resent: int = 0
    turns: int = 0
    parked: int = 0
    uncertain_tools: int = 0
    refused: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    ready_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    workload: str = "messages"
    results: int = 0
    more: dict[str, Any] = field(default_factory=dict)

    def add(self, other: "Figures") -> None:
        """Add those of another campaign."""
        self.kills += other.kills
        self.acknowledged += other.acknowledged
        self.resent += other.resent
        self.turns += other.turns
        self.parked += other.parked
        self.results += other.results
        self.uncertain_tools += other.uncertain_tools
        self.refused += other.refused
        self.counts += other.counts
        self.ready_s += other.ready_s
        self.seconds = max(self.seconds, other.seconds)
        for name, value in other.more.items():
            mine = self.more.get(name)
            counted = isinstance(value, Counter) and isinstance(mine, Counter)
            self.more[name] = mine + value if counted else value if mine is None else mine

    def as_json(self) -> dict[str, Any]:
        """Return them by name."""
        return {
            "mode": self.mode,
            "seed": self.seed,
            "kills": self.kills,
            **{kind: self.counts[kind] for kind in KINDS},
            "acknowledged": self.acknowledged,
            "resent": self.resent,
            "turns": self.turns,
            "uncertain_tools": self.uncertain_tools,
            "refused": self.refused,
            "parked": self.parked,
            "ready_p50_s": percentile(self.ready_s, 50),
            "ready_p99_s": percentile(self.ready_s, 99),
            "seconds": round(self.seconds, 1),
            **self._of_workload(),
            **self.more,
        }

    def _of_workload(self) -> dict[str, Any]:
        if self.workload == "messages":
            return {}
        kinds = {"delegation": OF_RESULTS, "budget": OF_MONEY, "cron": (), "approvals": OF_ASKING}.get(
            self.workload, OF_MEMORY
        )
        results = {"results": self.results} if self.workload == "delegation" else {}
        return {"workload": self.workload, **results, **{kind: self.counts[kind] for kind in kinds}}


def percentile(values: list[float], percent: int) -> float | None:
    """Return the nearest-rank percentile, rounded to milliseconds; None of nothing."""
    if not values:
        return None
    return round(sorted(values)[max(0, -(-len(values) * percent // 100) - 1)], 3)
