"""A short slice of the faults campaign: a real daemon, real sockets, every fault on the list at least once."""

import random

from tests.chance import SEED
from tests.faults.campaign import FAULTS, MISTAKES, Brain, run


async def test_a_daemon_over_failing_model_servers_answers_everything_once() -> None:
    print(f"SEED={SEED}")
    figures = await run(messages=24, agents=12, seed=SEED, share=0.4)
    assert figures.harm == 0, figures
    assert figures.answered == 24
    assert figures.faults, "some were drawn"


def test_every_fault_can_be_drawn() -> None:
    brain = Brain(random.Random(1), 1.0)
    for number in range(300):
        brain.plan(f"s{number:05}")
    assert set(brain.met) == FAULTS.keys() | MISTAKES.keys()
