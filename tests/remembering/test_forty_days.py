"""Two hundred turns over forty days with a model that does as told: what is kept, what expires, what comes back.

In CI four days; all of them with DAYS=40.
"""

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import trio

from daycare.agent import tokens
from daycare.base.memories import Tier
from daycare.base.memory_settings import IngestionSection, MemorySection
from daycare.config import Config
from daycare.features.memory.store.rows import MemoryRows
from daycare.plugin import Completion, InferRequest
from daycare.settings import ModelsSection, ProviderSection, with_offline
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted, say
from tests.chance import WHOLE

DAYS = int(os.environ.get("DAYS", "4"))
TURNS_A_DAY = 5
KEEP_DAYS = 3 * DAYS // 4
COLOURS = ("teal", "purple", "orange", "black")
DAY_S = 86_400.0
AWAKE_S = DAY_S if WHOLE else 18_000.0  # the daemon's machine sleeps for the rest of the day

_LINE = re.compile(r"^(\d+) \[[^\]]*\] Ann: (.*)$", re.MULTILINE)
_COLOUR = re.compile(r"My favourite colour is now (\w+)\.")
_PAINTED = re.compile(r"I painted the (\w+) today\.")
_RECALLED = re.compile(r'<memory tier="\w+" \w+>\n(.*?)\n</memory', re.DOTALL)


def brain(request: InferRequest) -> Completion:
    """Distil what is asked to be distilled; answer a question with the recalled lines that have its last word."""
    text = request.messages[-1].text
    if request.output is not None:
        return say(json.dumps({"facts": list(facts_in(text)), "entities": []}))
    asked = re.search(r"What did I say about the (\w+)", text)
    if asked is None:
        return say("I see.")
    lines = [line for block in _RECALLED.findall(request.system) for line in block.splitlines() if asked[1] in line]
    return say("\n".join(lines) or "Nothing.")


def facts_in(text: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for number, said in _LINE.findall(text):
        colour, painted = _COLOUR.search(said), _PAINTED.search(said)
        fact = {"subject": "Ann", "kind": "fact", "confidence": 0.9, "valid_from": "", "valid_until": ""}
        fact |= {"sources": [int(number)], "attribute": "", "value": ""}
        if colour:
            told = {"statement": f"Ann's favourite colour is {colour[1]}", "attribute": "favourite colour"}
            found.append(fact | told | {"value": colour[1], "kind": "preference"})
        if painted:
            found.append(fact | {"statement": f"Ann painted the {painted[1]}"})
    return found


async def test_forty_days_of_conversation(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted(brain)
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers=with_offline({"scripted": ProviderSection(kind="scripted")}),
        memory=MemorySection(keep_days=KEEP_DAYS, ingestion=IngestionSection(idle_minutes=60)),
    )
    clock = VirtualClock()
    async with open_daemon(tmp_path, model, config=config, curates=True, clock=clock) as house:
        first_day = datetime.fromtimestamp(house.daemon.clock.now_ms() / 1000, UTC).date()
        for day in range(DAYS):
            await house.talk(f"My favourite colour is now {COLOURS[day * len(COLOURS) // DAYS]}.")
            for turn in range(TURNS_A_DAY - 1):
                fence = "I painted the fence today." if (day, turn) == (1, 1) else f"Weather of day {day}, part {turn}."
                await house.talk(fence)
                await trio.sleep(900)
            await house.talk("/new")
            await trio.sleep(AWAKE_S - 900 * (TURNS_A_DAY - 1))
            clock.shift(DAY_S - AWAKE_S)
        memories = house.store.of(MemoryRows)
        colours = [it for it in await memories.find("ann", Tier.FACT, living=False) if it.fact and it.fact.attribute]
        holding = [it.fact.value for it in colours if it.fact and it.fact.valid_until_ms is None]
        assert sorted(it.fact.value for it in colours if it.fact) == sorted(COLOURS), "each once, however often said"
        assert holding == [COLOURS[-1]]
        oldest = min(entry.at_ms for entry in await memories.find("ann", Tier.LOG, limit=1_000))
        assert house.daemon.clock.now_ms() - oldest <= (KEEP_DAYS + 1) * DAY_S * 1000, "older ones have expired"
        assert (await memories.counts("ann")).uncurated == 0
        answer = await house.talk(f"What did I say about the fence in {first_day:%B}?")
        assert "Ann painted the fence" in answer
        assert answer.startswith(f"[{first_day.replace(day=first_day.day + 1)}"), "with the day on which it was said"
        chats = [request for request in model.history if request.output is None]
        budget = config.memory.retrieval.max_tokens
        for request in chats:
            recalled = sum(tokens.of_text(block) for block in _RECALLED.findall(request.system))
            assert recalled <= budget
    assert len(chats) == DAYS * TURNS_A_DAY + 1
