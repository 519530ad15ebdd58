"""Wherever the process dies, the errand ends as if it had not: at a commit, and at another while it recovers."""

import itertools
import random
import shutil
from pathlib import Path

import pytest

from daycare.testing.crash import Doom
from tests.chance import SEED, WHOLE, commits
from tests.flow.errand import begin

COMMITS_MAX = 200  # far more than the errand needs; ends a loop that would not
PAIRS = 5  # all of them take a quarter of an hour


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
    for n in commits(7):
        errand = await begin(tmp_path / f"{n}", monkeypatch)
        struck = await errand.run(Doom(n, late=late))
        assert not await errand.run(Doom())
        await errand.judge(f"crash at commit {n}{' late' if late else ''}")
        if not struck or n >= COMMITS_MAX:
            break
    assert 12 < n < COMMITS_MAX, "the errand has some commits, and an end"


async def test_a_crash_while_recovering_from_a_crash_changes_nothing(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"SEED={SEED}")
    whole = Doom()
    await (await begin(tmp_path / "whole", monkeypatch)).run(whole)
    points = [(n, late) for n in range(1, whole.commits + 1) for late in (False, True)]
    pairs = list(itertools.product(points, points))
    chosen = pairs if WHOLE else random.Random(SEED).sample(pairs, PAIRS)
    for number, (first, second) in enumerate(chosen):
        folder = tmp_path / f"{number}"
        errand = await begin(folder, monkeypatch)
        for n, late in (first, second):
            await errand.run(Doom(n, late=late))
        assert not await errand.run(Doom())
        await errand.judge(f"crashes (commit, late) at {first}, then at {second}")
        shutil.rmtree(folder)
