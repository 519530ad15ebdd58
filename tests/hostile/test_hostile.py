"""A slice of the campaign: a few inputs of each kind do no harm, the same do the same again, and harm is seen."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from daycare.base.errors import InvalidError
from daycare_plugins.bridge import intake as bridge_intake
from daycare_plugins.telegram import intake as telegram_intake
from daycare_plugins.telegram.reading import ReadUpdate
from tests.chance import SEED, WHOLE
from tests.hostile.campaign import KINDS, SLICE, warm
from tests.hostile.held import HELD_MAX_MS
from tests.hostile.trial import Prepared, Trial, play

_ALL = 20 if WHOLE else 1


@pytest.mark.parametrize("name", KINDS)
def test_hostile_inputs_do_no_harm(name: str) -> None:
    print(f"SEED={SEED}")
    warm([name])
    # Milliseconds are for the whole campaign: here only what no slow machine explains is a hold.
    tally = play(KINDS[name], SEED, range(SLICE[name] * _ALL), held_ms=5 * HELD_MAX_MS)
    assert tally.failures == []
    assert tally.answered + tally.refused + tally.dead == tally.inputs


@pytest.mark.parametrize("name", ["messages", "commands", "files", "rendering", "api", "archives"])
def test_an_input_is_the_same_again_for_the_same_seed_kind_and_number(name: str) -> None:
    kind = KINDS[name]
    kind.ready()
    first, again, other = ([kind.shown(Trial(kind, seed, ()).draw(n)) for n in range(20)] for seed in (1, 1, 2))
    assert first == again != other


class Harmful(Prepared):
    """Number 7 does what is asked for, all others nothing."""

    name = "harmful"
    chunk = 16
    virtual = True

    def __init__(self, how: str) -> None:
        self.how = how

    async def play(self, trial: Trial, folder: Path) -> None:
        for number in trial.numbers:
            if number != 7 or self.how == "nothing":
                trial.end(number, "answered")
                continue
            if self.how == "ended":
                raise InvalidError("X", "out of the nursery")
            if self.how == "held":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_hold, name="input 7")
                trial.end(number, "answered")

    def shown(self, rng: Random) -> str:
        return ""


async def _hold() -> None:
    await trio.lowlevel.checkpoint()
    data = bytes(10_000_000)
    for _ in range(int(HELD_MAX_MS)):
        data.count(b"x")


@pytest.mark.parametrize("how", ["ended", "held", "no end"])
def test_the_one_input_that_does_harm_is_found_among_others(how: str) -> None:
    tally = play(Harmful(how), 1, range(16))
    assert [(each.what, each.inputs) for each in tally.failures] == [(how, [7])]
    assert tally.inputs == 16 and tally.answered == (15 if how != "held" else 16)


def test_a_line_of_a_bridge_that_is_lost_without_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_intake, "read", lambda *_: None)  # it is acknowledged, and nothing comes of it
    trial = Trial(KINDS["bridge"], SEED, range(20))
    trial.run()
    assert {harm.what for harm in trial.harms} == {"vanished"}


def test_an_update_that_is_lost_without_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = telegram_intake.read_batch

    def lossy(*arguments: Any) -> list[ReadUpdate]:
        return [replace(one, item=None) for one in read(*arguments)]

    monkeypatch.setattr(telegram_intake, "read_batch", lossy)
    trial = Trial(KINDS["telegram"], SEED, range(5))
    trial.run()
    assert {harm.what for harm in trial.harms} == {"vanished"}


def test_where_there_is_no_harm_none_is_found() -> None:
    assert play(Harmful("nothing"), 1, range(16)).failures == []
