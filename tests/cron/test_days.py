"""Days with changes of the clocks, jumps, kills and absences: each time is handled once, or the ledger says why not."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cron.days import simulate


@pytest.mark.parametrize(("seed", "begin"), [(1, "2027-03-27"), (2, "2027-10-30"), (3, "2027-09-03")])
def test_days_pass_and_no_time_is_lost_or_handled_twice(tmp_path: Path, seed: int, begin: str) -> None:
    figures = simulate(seed, 1.5, tmp_path, begin=datetime.fromisoformat(begin).replace(tzinfo=UTC))
    print(f"seed {seed}: {figures.as_json()}")
    assert figures.wrong == []
    assert (figures.lost, figures.twice, figures.storms) == (0, 0, 0)
    assert figures.due > 100 and figures.jumps
