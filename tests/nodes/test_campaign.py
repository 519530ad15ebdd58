"""A short slice of the campaign; `python -m tests.nodes` has all of it."""

import random

import pytest

from tests.nodes.campaign import Campaign
from tests.nodes.judge import KINDS


@pytest.mark.parametrize("kind", ["kill", "upgrade"])
async def test_others_take_over_from_a_node_that_is_gone_and_nothing_is_lost_or_doubled(kind: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    figures = await Campaign(1, seed, senders=3, only=kind).run()
    assert not any(figures[name] for name in KINDS), figures
    assert figures["acknowledged"] > 0
    assert figures["versions"] == (2 if kind == "upgrade" else 1)
    assert (figures["takeover_p99_s"] or figures["handover_p99_s"]) < 60


@pytest.mark.parametrize("mutant", ["", "never-unsure"])
async def test_a_node_that_acts_on_after_its_lease_would_be_found(mutant: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    campaign = Campaign(1, seed, senders=3, only="strand", mutant=mutant)
    figures = await campaign.run()
    assert (figures["two_owners"] > 0) == (mutant != ""), figures
    if mutant:
        campaign.cluster.remove()  # what is found is kept for people
