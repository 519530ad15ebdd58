"""A slice of the deaths between two commits; and the judge sees what is missing, twice or left over."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.chance import SEED, WHOLE, sliced
from tests.crash.between import Rest, compare
from tests.crash.operations import OPERATIONS, Operation

POINTS = () if WHOLE else ("--points", "3")


@pytest.mark.parametrize("operation", sliced(sorted(OPERATIONS), 6))
def test_a_death_between_any_two_commits_changes_nothing(operation: str) -> None:
    # A process of its own, as it forks: one that runs tests has threads.
    command = ["tests.crash", "--between", "--operation", operation, *POINTS, "--seed", str(SEED), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False
    )
    assert done.returncode == 0, f"python -m {' '.join(command)}\n{done.stderr}"
    figures = json.loads(done.stdout)
    assert figures["kills"] >= figures["points"] - figures["missed"] > 0
    assert figures["operations"][operation] > 5, "an operation has some commits"


GOOD = Rest(
    kept=Counter({("reply", "/ann/pigeon", "hello"): 1}),
    arrived=Counter({("arrived", "ann", "hello"): 1}),
)
BAD = {
    "lost": Rest(arrived=GOOD.arrived),
    "doubled": Rest(kept=GOOD.kept, arrived=Counter({("arrived", "ann", "hello"): 2})),
    "left": Rest(kept=GOOD.kept, arrived=GOOD.arrived, open=Counter({("a timer waits", "late"): 1})),
    "broken": Rest(kept=GOOD.kept, arrived=GOOD.arrived, wrong=["charge ran 2 times"]),
}


async def _nothing(_person: object) -> None:
    pass


@pytest.mark.parametrize("kind", sorted(BAD))
def test_the_judge_sees_what_a_death_changed(kind: str) -> None:
    operation = Operation(_nothing)
    assert list(compare(GOOD, GOOD, operation)) == []
    assert {found for found, _ in compare(GOOD, BAD[kind], operation)} == {kind}


def test_what_may_differ_is_no_finding() -> None:
    assert list(compare(GOOD, BAD["lost"], Operation(_nothing, varies=("reply",)))) == []
