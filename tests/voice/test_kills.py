"""A few of the kills of `python -m tests.voice`: while it listens, and nothing is lost, doubled, or paid twice."""

from pathlib import Path

from daycare.testing.daemon_process import ThrowawayHome
from tests.chance import SEED
from tests.voice.kills import BROKEN, Ears, kills


async def test_notes_that_are_heard_during_a_kill_are_read_and_charged_once(tmp_path: Path) -> None:
    print(f"SEED={SEED}")
    async with Ears.serve() as ears:
        found = await kills(ThrowawayHome(tmp_path, ""), ears, 2, SEED)
    assert not {name: found[name] for name in BROKEN if found[name]}, found
    assert found["notes"] > 2 and found["while_hearing"] == 2, found
