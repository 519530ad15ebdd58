"""A connection is kept going: off, with a credential, again after a defect, and quickly again after a steady time."""

import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from daycare.base.errors import DaycareError
from daycare.messenger import keeping


class Shaky:
    """Breaks after the times of a script, and then holds."""

    def __init__(self, *lasts_s: float) -> None:
        self.stored = "one"
        self.told: list[str] = []
        self.begun: list[tuple[float, str]] = []
        self._lasts_s = list(lasts_s)

    def credential(self) -> tuple[str, str]:
        return self.stored, "nothing is stored"

    def off(self, reason: str) -> None:
        self.told.append(f"off: {reason}")

    def starting(self) -> None:
        self.told.append("starting")

    def broken(self, defect: DaycareError) -> None:
        self.told.append(f"{defect.code}: {defect.message}")

    async def serve(self, credential: str) -> None:
        self.begun.append((trio.current_time(), credential))
        if self._lasts_s:
            await trio.sleep(self._lasts_s.pop(0))
            raise KeyError("a defect")
        await trio.sleep_forever()


async def test_pauses_grow_while_it_only_fails_and_begin_again_after_a_good_time(autojump_clock: MockClock) -> None:
    shaky = Shaky(0.0, 0.0, 0.0, keeping.STEADY_S + 1, 0.0)
    with trio.move_on_after(1_000):
        await keeping.keep(shaky, "CRASHED", "serving")
    at = [when for when, _ in shaky.begun]
    pauses = [later - now for now, later in pairwise(at)]
    assert pauses == [1.0, 2.0, 4.0, keeping.STEADY_S + 1 + 1.0, 2.0]
    assert shaky.told[:2] == ["starting", "CRASHED: serving: KeyError: 'a defect'"]


async def test_another_credential_begins_it_again_and_without_one_it_is_off(autojump_clock: MockClock) -> None:
    shaky = Shaky()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.keep, shaky, "CRASHED", "serving")
        for stored in ("two", "", "three"):
            await trio.sleep(2 * keeping.LOOK_S)
            shaky.stored = stored
        await trio.sleep(2 * keeping.LOOK_S)
        nursery.cancel_scope.cancel()
    assert [credential for _, credential in shaky.begun] == ["one", "two", "three"]
    assert shaky.told[0] == "starting"
    assert "off: nothing is stored" in shaky.told


async def test_a_module_that_another_connection_imports_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bots start together: the second must not go on with the half of a module."""
    (tmp_path / "heavy_client.py").write_text("import sys\nsys.import_may_end.wait(20)\nserve = True\n")
    may_end = threading.Event()
    monkeypatch.setattr(sys, "import_may_end", may_end, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    got: list[bool] = []

    async def bot() -> None:
        got.append((await keeping.imported("heavy_client")).serve)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bot)
            while "heavy_client" not in sys.modules:
                await trio.sleep(0.01)
            nursery.start_soon(bot)
            await wait_all_tasks_blocked(0.05)
            may_end.set()
    monkeypatch.delitem(sys.modules, "heavy_client")
    assert got == [True, True]
