"""The chat command `/memory`: what I remember of you, why it came up, and how to have it forgotten."""

from collections.abc import Sequence
from typing import Final
from zoneinfo import ZoneInfo

from daycare.actors.lifecycle import Activation
from daycare.agent.blocks import one_line
from daycare.agent.commands import Command, CommandAnswer, Commands, check_manager
from daycare.base.english import plural
from daycare.base.limits import FORGET_MAX
from daycare.base.memories import Tier
from daycare.base.messages import Choice
from daycare.base.times import local_time
from daycare.features.memory.controls import MemoryControls, Shown
from daycare.features.memory.forgetting import ForgettingPlan
from daycare.features.memory.search.lookup import Filters, label, label_in
from daycare.features.memory.store.records import Forgotten
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite.people import PeopleStore

_SHOWN: Final = 10  # memories of one answer: a phone's screen
_LINE_CHARS: Final = 160
_HELP: Final = (
    "/memory WORDS finds what I remember, /memory ask QUESTION answers from it, /memory facts and /memory entities "
    "list it, /memory why shows what came up for your last message, /memory forget NUMBER removes something for good."
)


class MemoryCommands:
    """Answers it."""

    def __init__(self, controls: MemoryControls, people: PeopleStore) -> None:
        self._controls = controls
        self._people = people

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add(
            "memory",
            Command("what I remember [words | ask QUESTION | facts | entities | why | forget NUMBER]", self._run),
        )

    async def _run(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        user = await self._people.get(agent.user)
        zone = user.zone if user is not None else "UTC"
        word, _, more = rest.partition(" ")
        if word == "forget":
            await check_manager(self._people, row, agent, "whose memory it is can have something forgotten")
            return await self._forget(agent, more.split(), row.envelope.sender)
        if word == "ask":
            if not more.strip():
                return CommandAnswer("Ask something: /memory ask what did I say about the garden in March")
            it = row.envelope
            await self._controls.ask(agent, more, sender=it.sender, key=f"ask:{row.seq}", trace=it.trace, asked=row)
            return CommandAnswer("")  # the answer comes as one of the agent's own
        if word in ("facts", "entities"):
            tier = Tier.FACT if word == "facts" else Tier.ENTITY
            found = await self._controls.find(agent, tier, more, limit=_SHOWN)
            return CommandAnswer(_listed(found, zone) or "There is nothing yet.")
        if word == "why":
            why = await self._controls.why(agent, int(more) if more.isdecimal() else None)
            gone = f"\n{why.gone} of them are gone by now." if why.gone else ""
            return CommandAnswer(f"For turn {why.turn} I recalled:\n{_listed(why.memories, zone)}{gone}")
        if rest:
            found = await self._controls.search(agent, more if word == "search" else rest, Filters(limit=_SHOWN))
            return CommandAnswer(_listed(found, zone) or "I remember nothing like that.")
        counts = await self._controls.counts(agent)
        return CommandAnswer(
            f"I remember {counts.facts} facts and {counts.entities} people and things, from {counts.logs} messages; "
            f"{counts.uncurated} are not looked through yet.\n{_HELP}"
        )

    async def _forget(self, agent: Agent, words: Sequence[str], by: str) -> CommandAnswer:
        labels = [found for word in words if (found := label_in(word))][:FORGET_MAX]
        if not labels:
            return CommandAnswer("Say which: /memory forget NUMBER. The numbers stand before what /memory WORDS finds.")
        plan = await self._controls.plan(agent, labels)
        if "yes" not in words:
            yes = f"/memory forget {' '.join(labels)} yes"
            return CommandAnswer(f"{told(plan)}\nForget it for good?", choices=(Choice("Forget it", yes),))
        forgotten = await self._controls.forget(agent, plan, by)
        return CommandAnswer(f"Forgotten: {_gone(forgotten)}. Backups from before still have them.")


def told(plan: ForgettingPlan) -> str:
    """Return what would be forgotten, in words."""
    lines = [f"- {one_line(memory.text, _LINE_CHARS)}" for memory in plan.memories[:_SHOWN]]
    more = len(plan.memories) - len(lines)
    lines += [f"- and {more} more"] if more > 0 else []
    if plan.turns:
        turns = len(plan.turns)
        lines.append(f"and everything said in {turns} {plural('exchange', turns)}, which it comes from.")
    lines += [f"{place.name} goes on without it." for place in plan.places]
    if plan.mentions:
        numbers = ", ".join(f"#{label(memory)}" for memory in plan.mentions)
        lines.append(f"These speak of the same and stay: {numbers}.")
    return "\n".join(("This would go:", *lines))


def _listed(found: Sequence[Shown], zone: str) -> str:
    return "\n".join(_line(each, zone) for each in found)


def _line(each: Shown, zone: str) -> str:
    at = local_time(each.at_ms, ZoneInfo(zone))
    until = each.about.get("valid_until_ms")
    over = f" (until {local_time(until, ZoneInfo(zone)):%Y-%m-%d})" if until else ""
    who = f"{each.speaker}: " if each.tier == Tier.LOG and each.speaker else ""
    name = f"{each.about['name']} ({each.about['kind']}) - " if each.tier == Tier.ENTITY else ""
    return f"#{each.label} [{at:%Y-%m-%d}] {name}{who}{one_line(each.text, _LINE_CHARS)}{over}"


def _gone(it: Forgotten) -> str:
    return (
        f"{it.memories} {plural('memory', it.memories)}, the words of {it.turns} {plural('exchange', it.turns)}, "
        f"{it.versions} {plural('version', it.versions)} of documents"
    )
