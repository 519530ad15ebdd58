"""A short slice of the campaign of kills, see `kills.py`."""

from pathlib import Path

from tests.builder import kills
from tests.chance import SEED, WHOLE


async def test_kills_leave_no_agent_in_part_and_make_none_twice(tmp_path: Path) -> None:
    print(f"SEED={SEED}")
    found = await kills.campaign(tmp_path, 30 if WHOLE else 2, SEED)
    assert found["there in part"] == []
    assert (found["agents"], found["jobs"], found["requests"], found["approved"]) == (kills.AGENTS,) * 4
    assert found["versions of each"] == [1]
