"""The table of planted faults: which campaign must catch each, and by which finding."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.bridge import campaign as bridge
from tests.planted import faults
from tests.planted.plugin import planted
from tests.telegram.campaign import approve, flood, receive, send
from tests.telegram.campaign.report import Report

Campaign = Callable[[int], Awaitable[Report]]  # takes a seed

_HARD: Final = flood.Shares(groups=0.5, slow=1.0, slow_s=(4.0, 7.0), refused=0.15)
# As short as they can be and still see what is planted; without a fault each finds nothing.
CAMPAIGNS: Final[Mapping[str, Campaign]] = {
    "receive": lambda seed: receive.run(updates=160, chats=8, kills=0, seed=seed),
    "send": lambda seed: send.run(kills=2, chats=2, seed=seed),
    "flood": lambda seed: flood.run(answers=18, chats=6, seed=seed, on_its_way_s=3.0, shares=_HARD),
    "approve": lambda seed: approve.run(kills=2, chats=4, seed=seed),
    "bridge": lambda seed: bridge.run(3, seed),
}


@dataclass(frozen=True)
class Planted:
    """A fault: its name, how it is planted, the campaign that must catch it, and kinds of findings that tell of it."""

    plant: Callable[[], None]
    campaign: str
    kinds: Sequence[str]

    @property
    def name(self) -> str:
        """Its name."""
        return self.plant.__name__


TABLE: Final[Sequence[Planted]] = (
    Planted(faults.answers_to_another, "receive", ("astray",)),
    Planted(faults.answers_beside_their_topic, "receive", ("astray",)),
    Planted(faults.topics_are_one_conversation, "receive", ("astray",)),
    Planted(faults.quotes_are_dropped, "receive", ("mistold",)),
    Planted(faults.forwards_are_ones_own_words, "receive", ("mistold",)),
    Planted(faults.files_are_empty, "receive", ("mistold",)),
    Planted(faults.speakers_have_no_name, "receive", ("mistold",)),
    Planted(faults.everybody_in_a_group_is_meant, "receive", ("strangers_in",)),
    Planted(faults.pressed_buttons_spin, "receive", ("unanswered",)),
    Planted(faults.updates_are_confirmed_before_their_commit, "receive", ("confirmed_early",)),
    Planted(faults.updates_are_never_confirmed, "receive", ("broken",)),
    Planted(faults.replies_are_sent_twice, "send", ("doubled",)),
    Planted(faults.long_replies_end_first, "send", ("reordered",)),
    Planted(faults.replies_refused_for_their_pace_are_lost, "flood", ("lost",)),
    Planted(faults.previews_stay, "flood", ("left",)),
    Planted(faults.answers_to_another, "approve", ("astray",)),
    Planted(faults.pressed_buttons_spin, "approve", ("unanswered",)),
    Planted(faults.some_bridge_answers_to_another, "bridge", ("astray",)),
    Planted(faults.quotes_are_dropped, "bridge", ("mistold",)),
    Planted(faults.forwards_are_ones_own_words, "bridge", ("mistold",)),
    Planted(faults.files_are_empty, "bridge", ("mistold",)),
    Planted(faults.bridges_are_acknowledged_before_the_commit, "bridge", ("confirmed_early", "lost")),
    Planted(faults.bridge_replies_have_new_keys, "bridge", ("doubled",)),
)


@dataclass(frozen=True)
class Outcome:
    """What a campaign found of a fault."""

    fault: Planted
    found: Sequence[tuple[str, str]]

    @property
    def caught(self) -> bool:
        """Whether it found what is planted, and not only something else."""
        return any(kind in self.fault.kinds for kind, _ in self.found)

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        first = next((what for kind, what in self.found if kind in self.fault.kinds), "")
        return {
            "fault": self.fault.name,
            "campaign": self.fault.campaign,
            "caught": self.caught,
            "findings": len(self.found),
            "kinds": sorted({kind for kind, _ in self.found}),
            "first": first[:300],
        }


async def run(fault: Planted, seed: int) -> Outcome:
    """Run the campaign of a fault with the fault planted."""
    token = planted.set(fault.name)
    try:
        report = await CAMPAIGNS[fault.campaign](seed)
    finally:
        planted.reset(token)
    return Outcome(fault, report.findings)


async def sound(name: str, seed: int) -> Sequence[tuple[str, str]]:
    """Run a campaign without a fault; return findings that would have passed for a fault of it that is caught.

    What only tells how fast the machine is does not count: several campaigns run at a time.
    """
    kinds = {kind for fault in TABLE if fault.campaign == name for kind in fault.kinds}
    return [each for each in (await CAMPAIGNS[name](seed)).findings if each[0] in kinds]
