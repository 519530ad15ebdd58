"""A house whose agents ask their memory, and a model that searches it."""

import re
from collections.abc import Callable
from typing import Any

import trio
import trio.testing

from daycare.base.clues import SEARCHER
from daycare.base.documents import Attribution
from daycare.base.messages import Origin, ToolResult
from daycare.config import Config
from daycare.plugin import Completion, InferRequest
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted, call, echo, say
from tests.actors.helpers import said_to

OFFLINE = Config()
SEARCH = "/ann/direct/search/0"
CLARA = "My sister Clara lives in Bern."
DAY_MS = 86_400_000

Mind = Callable[[InferRequest], Completion]


def results(request: InferRequest) -> list[str]:
    """Return what tools have answered in this turn."""
    found: list[str] = []
    for message in reversed(request.messages):
        if message.role == "user":
            break
        found[:0] = [part.text for part in message.parts if isinstance(part, ToolResult)]
    return found


def looking(*queries: dict[str, Any], then: Mind) -> Mind:
    """Return the mind of a search agent that makes these searches together and then answers."""

    def search(request: InferRequest) -> Completion:
        return then(request) if results(request) else call(*(("memory_search", query) for query in queries))

    return search


def first_source(request: InferRequest) -> Completion:
    """Answer with the number that was found first."""
    found = re.search(r"^\[(\d+)\]", "\n".join(results(request)), re.MULTILINE)
    return say(f"She lives in Bern [{found[1]}]." if found else "Memory has nothing on this.")


def model(search: Mind = looking({"query": "Clara"}, then=first_source)) -> Scripted:  # noqa: B008  # immutable
    """Return a model whose agent asks its memory when told to `recall ...`, and says what it is told."""

    def brain(request: InferRequest) -> Completion:
        if request.system.startswith(SEARCHER):
            return search(request)
        if told := results(request):
            return say(f"I looked: {told[-1]}")
        said = request.messages[-1].text.partition("] ")[2]
        return call(("memory_ask", {"question": said})) if said.startswith("recall") else echo(request)

    return Scripted(brain)


async def remembered(house: TestDaemon) -> None:
    await trio.sleep(5)
    await house.daemon.memory.controls.process()
    await trio.sleep(60)


async def ask(house: TestDaemon, question: str, **where: str) -> str:
    """Ask as a person in a chat; return the answer."""
    path = where.get("path") or f"/{where.get('user', 'ann')}/direct"
    before = await said_to(house, path)
    await house.talk(f"/memory ask {question}", **where)
    with trio.fail_after(60):
        while len(said := await said_to(house, path)) == len(before):
            await trio.sleep(0.1)
    return said[-1]


async def asked_for(house: TestDaemon) -> ToolResult:
    """Return the result of the newest question that the model put to memory, as the conversation keeps it."""
    agent = await house.agent("/ann/direct")
    history = await house.store.turns.history(agent.id, agent.session, 100)
    parts = (part for message in history for part in message.parts)
    return [part for part in parts if isinstance(part, ToolResult) and part.name == "memory_ask"][-1]


async def number_of(house: TestDaemon, text: str, path: str = "/ann/direct") -> int:
    agent = await house.daemon.directory.at(path)
    return next(each.no for each in await house.daemon.memory.controls.search(agent, text) if each.text == text)


def by() -> Attribution:
    return Attribution(origin=Origin.PERSON, author="direct:ann", approver="direct:ann")
