"""The whole way: from a messenger over a bridge process to an agent and back."""

from pathlib import Path

from daycare.testing.scripted import Scripted, say
from tests.bridge.helpers import is_up, staged, until


async def test_a_person_is_answered_over_a_bridge(tmp_path: Path) -> None:
    model = Scripted()
    model.enqueue(say("Hello **Ann**"))
    async with staged(tmp_path, model) as (house, there):
        there.say("ann", "hi")
        await until(lambda: there.texts("ann"))
        assert there.texts("ann") == ["Hello **Ann**"]
        assert is_up(house)
        assert not there.waiting
