"""A slice of the planted faults, other ones each time: each is caught, by the finding that tells of it."""

import inspect
from random import Random
from unittest.mock import patch

import trio

from tests.chance import SEED, WHOLE
from tests.planted import faults
from tests.planted.table import TABLE, Outcome, Planted, run
from tests.telegram.campaign import running
from tests.telegram.campaign.warm import Kennel


async def test_planted_faults_are_caught() -> None:
    print(f"SEED={SEED}")
    rng, outcomes = Random(SEED), list[Outcome]()
    drawn = [rng.choice([each for each in TABLE if each.campaign == name]) for name in ("receive", "send")]
    if WHOLE:
        drawn = rng.sample(TABLE, 8)

    async def one(fault: Planted) -> None:
        outcomes.append(await run(fault, SEED))

    with Kennel(pace=False) as kennel, patch.object(running, "DaemonProcess", kennel.start):
        async with trio.open_nursery() as nursery:
            for fault in drawn:
                nursery.start_soon(one, fault)
    assert [each.as_json() for each in outcomes if not each.caught] == []


def test_each_fault_is_planted_by_some_campaign() -> None:
    written = {name for name, it in vars(faults).items() if inspect.isfunction(it) and not name.startswith("_")}
    ours = {name for name in written if getattr(faults, name).__module__ == faults.__name__}
    assert {each.name for each in TABLE} == ours
    assert len(TABLE) >= 14
