"""Faults are really planted and really caught: a few each day, all of them with `python -m tests.mutants`."""

import ast
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chance import sliced
from tests.mutants.campaign import run
from tests.mutants.plant import After, Body, Edit, Fault, Instead, PlantError, Reword, Swap
from tests.mutants.table import MUTANTS, Mutant, Slice

QUICK = [it for it in MUTANTS if it.seen_by.campaign in ("tests", "wakes", "simulation", "cron")]
CODE = '''
class Till:
    """Counts."""

    async def add(self, sum_):
        """Add it."""
        for part in sum_:
            self.total += part
            self.log.append("SELECT one")
        return self.total
'''


def _source(fault: Fault) -> str:
    spec = importlib.util.find_spec(fault.module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_text()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[it.name for it in MUTANTS])
def test_every_fault_finds_what_it_is_planted_into(mutant: Mutant) -> None:
    for fault in mutant.faults:
        compile(fault.planted(_source(fault)), fault.module, "exec")


def test_names_are_unique_and_the_table_is_long_enough() -> None:
    assert len({it.name for it in MUTANTS}) == len(MUTANTS) >= 40


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (Instead("self.total += part"), "pass"),
        (After("self.log.append('SELECT one')", "self.lost()"), "self.lost()"),
        (Swap("self.total", "0"), "return 0"),
        (Reword("one", "two"), "'SELECT two'"),
        (Body("return await self.other()"), "return await self.other()"),
    ],
)
def test_an_edit_changes_the_function_and_notes_who_comes_by(edit: Edit, line: str) -> None:
    planted = ast.unparse(Fault("till:Till.add", (edit,)).planted(CODE))
    assert line in planted and "reached()" in planted


@pytest.mark.parametrize(
    ("where", "edits"),
    [
        ("till:Till.gone", (Body("pass"),)),
        ("till:Gone.add", (Body("pass"),)),
        ("till:Till", (Body("pass"),)),
        ("till:Till.add", (Instead("self.gone"),)),
        ("till:Till.add", (Swap("self.gone", "0"),)),
        ("till:Till.add", (Reword("gone"),)),
        ("till:Till.add", (Swap("self.total", "self.total"),)),
    ],
)
def test_a_fault_that_finds_nothing_to_change_fails(where: str, edits: tuple[Edit, ...]) -> None:
    with pytest.raises(PlantError):
        Fault(where, edits).planted(CODE)


@pytest.mark.parametrize("mutant", sliced(QUICK, 10), ids=lambda it: it.name)
def test_a_planted_fault_is_caught(mutant: Mutant) -> None:
    figures = run([mutant], 1, print)
    assert (figures.planted, figures.uncaught, figures.unsound) == (1, {}, {})


def _uncaught(mutant: Mutant) -> Sequence[str]:
    return list(run([mutant], 1, print).uncaught.values())


def test_a_slice_that_does_not_come_by_and_one_that_passes_catch_nothing() -> None:
    known = MUTANTS[0]
    idle = Mutant(known.name, known.what, known.where, known.edits, Slice("idle", ("tests.simulation", "--help")))
    assert _uncaught(idle) == ["the slice did not come by"]
    far = Mutant(known.name, known.what, known.where, known.edits, Slice("far", ("tests.mutants", "--list")))
    assert _uncaught(far) == ["its module was not imported"]
