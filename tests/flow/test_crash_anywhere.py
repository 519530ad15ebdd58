"""Wherever the process dies, the errand ends as if it had not: exhaustively, over every commit and every pair."""

import os
import random
from pathlib import Path

import pytest

from daycare.testing.crash import Doom
from tests.flow.errand import Errand, begin

COMMITS_MAX = 200  # far more than the errand needs; ends a loop that would not
PAIRS_MAX = int(os.environ.get("DAYCARE_CRASH_PAIRS", "60"))  # 0: all of them, which takes minutes


async def test_without_a_crash_the_errand_ends_well(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    errand = await begin(tmp_path / "whole", monkeypatch)
    assert not await errand.run(Doom())
    await errand.judge("no crash")
    assert errand.ledger == {"note milk": 1, "charge ann": 1}


@pytest.mark.parametrize("late", [False, True], ids=["right after", "just before the next"])
async def test_a_crash_at_any_commit_changes_nothing(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    for n in range(1, COMMITS_MAX):
        errand = await begin(tmp_path / f"{n}", monkeypatch)
        struck = await errand.run(Doom(n, late=late))
        assert not await errand.run(Doom())
        await errand.judge(f"crash at commit {n}{' late' if late else ''}")
        if not struck:
            break
    assert 12 < n < COMMITS_MAX, "the errand has some commits, and an end"


async def test_a_crash_while_recovering_from_a_crash_changes_nothing(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int(os.environ.get("DAYCARE_SEED", random.randrange(1 << 32)))
    print(f"DAYCARE_SEED={seed}")
    dice = random.Random(seed)
    chance = 1.0 if not PAIRS_MAX else PAIRS_MAX / 1_200
    struck, n = True, 0
    while struck and n < COMMITS_MAX:
        n += 1
        for late in (False, True):
            first = await begin(tmp_path / f"{n}-{late}", monkeypatch)
            struck = await first.run(Doom(n, late=late))
            await _crash_again(first, f"{n}{' late' if late else ''}", dice, chance, monkeypatch)


async def _crash_again(
    first: Errand, label: str, dice: random.Random, chance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for m in range(1, COMMITS_MAX):
        for late in (False, True):
            if dice.random() >= chance:
                continue
            folder = first.folder.with_name(f"{first.folder.name}-{m}-{late}")
            monkeypatch.setenv("DAYCARE_TEST_LEDGER", str(folder / "ledger"))
            errand = first.copy(folder)
            struck = await errand.run(Doom(m, late=late))
            assert not await errand.run(Doom())
            await errand.judge(f"crash at commit {label}, then at {m}{' late' if late else ''}")
            if not struck:
                return
        if m > 60:
            return
