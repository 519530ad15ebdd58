"""How long threads have the interpreter: shorter while one of them works without a pause, and as before afterwards."""

import sys
from pathlib import Path

import pytest

from daycare.base.interpreter import TURN_S, short_turns
from daycare.features.memory import loading


def test_turns_are_short_until_the_last_who_wants_them_has_ended() -> None:
    before = sys.getswitchinterval()
    with short_turns():
        with short_turns():
            assert sys.getswitchinterval() < TURN_S / 4
        assert sys.getswitchinterval() < TURN_S / 4
    assert sys.getswitchinterval() == before


async def test_turns_are_short_while_memory_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asks_for_its_turn.py").write_text("import sys\nTURN_S = sys.getswitchinterval()\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = sys.getswitchinterval()
    await loading.loaded(("asks_for_its_turn",))
    assert pytest.approx(TURN_S / 5) == sys.modules["asks_for_its_turn"].TURN_S
    assert sys.getswitchinterval() == before
