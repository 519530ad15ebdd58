"""A house whose model has a small window, and a mind that sums up when it is asked to."""

from collections.abc import Callable

from daycare.agent.compaction import SYSTEM
from daycare.config import Config, ModelSection, ModelsSection, ProviderSection, ToolsSection
from daycare.plugin import Completion, InferRequest
from daycare.store.records import Agent, Summary
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Answer, Scripted, echo, say

PATH = "/ann/direct"
LONG = "word " * 400  # 500 tokens; a turn that echoes it has 1,000


def small(context: int = 8_000, output: int = 1_000) -> Config:
    """Return settings with a small window: of 8,000 tokens 6,600 are a prompt's, compacted from 5,280 on."""
    model = ModelSection(context_tokens=context, output_tokens=output)
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted", models={"model": model})},
        tools=ToolsSection(user=("send_message", "remind", "ask", "spawn", "read_result", "note", "charge", "read")),
    )


def asks_for_summary(request: InferRequest) -> bool:
    """Return whether a call is one for a summary."""
    return request.system == SYSTEM


def facts(request: InferRequest) -> Completion:
    """Sum up: keep the first word of each fact."""
    lines = request.messages[0].text.splitlines()
    kept = [word for line in lines if line.startswith("facts:") for word in line.split()[1:]]
    kept += [line.partition("FACT ")[2].split()[0] for line in lines if "FACT " in line]
    return say(f"Well. <summary>\nfacts: {' '.join(dict.fromkeys(kept))}\n</summary>")


def mind(summarise: Answer = facts, otherwise: Answer = echo) -> Scripted:
    """Return a model that sums up in one way and answers in another."""
    return Scripted(lambda request: summarise(request) if asks_for_summary(request) else otherwise(request))


def script(*entries: Completion) -> Answer:
    """Answer with these, one by one, and then echo; calls for summaries take none of them."""
    left = list(entries)
    return lambda request: left.pop(0) if left else echo(request)


def summaries_asked(model: Scripted) -> list[InferRequest]:
    """Return the calls for a summary so far."""
    return [request for request in model.history if asks_for_summary(request)]


def prompts(model: Scripted) -> list[InferRequest]:
    """Return the other calls so far."""
    return [request for request in model.history if not asks_for_summary(request)]


def words(request: InferRequest) -> str:
    """Return all that a prompt says."""
    return "\n".join(message.text for message in request.messages)


async def me(house: TestDaemon) -> Agent:
    """Return the person's agent."""
    return await house.daemon.directory.at(PATH)


async def stored(house: TestDaemon) -> list[Summary]:
    """Return the summaries of the agent's session."""
    agent = await me(house)
    return await house.store.summaries.find(agent.id, agent.session)


async def grow(house: TestDaemon, turns: int, text: Callable[[int], str] = lambda n: f"{n} {LONG}") -> None:
    """Let a conversation go on for some turns."""
    for number in range(turns):
        await house.talk(text(number))
