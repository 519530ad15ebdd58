"""Judges what agents asked of each other: each result is read once by who asked, and nobody works or waits in vain."""

import re
from collections import Counter
from collections.abc import Iterator

import apsw

from daycare.base.messages import ToolResult
from tests.crash.judge import Verdict, World
from tests.crash.ledger import Finding, Ledger
from tests.crash.mind import ALL_TASKS, DONE, TASKS, Errand, calls_of

_HEARD = re.compile(r"\[([a-z]+) (s\d+-\d+)\]")


def delegated(db: apsw.Connection, world: World, ledger: Ledger, verdict: Verdict) -> Iterator[Finding]:
    """Compare what was asked with what was read, both in the conversations."""
    yield from _tasks(world)
    yield from _results(world, verdict)
    yield from _answers(db, world, ledger)
    yield from _orphans(db)


def _tasks(world: World) -> Iterator[Finding]:
    """Each task is worked on by one agent, once; and by nobody if it was not given."""
    worked = Counter(errand for _, errand in world.said if errand.verb in ALL_TASKS)
    given = {task for _, errand in world.said for task in _given(errand)}
    for task, times in worked.items():
        if times > 1:
            yield "doubled", f"{task} was worked on {times} times"
        if task not in given:
            yield "broken", f"{task} was worked on, and nobody gave it"


def _given(errand: Errand) -> list[Errand]:
    return [Errand(task, errand.sender, errand.number) for task in TASKS.get(errand.verb, ())]


def _results(world: World, verdict: Verdict) -> Iterator[Finding]:
    """Who gave a task that was done reads so once: as the result of the call, or as a message."""
    read: Counter[tuple[str, str, str]] = Counter()
    refused: set[str] = set()
    for path, messages in world.turns:
        for message in messages:
            texts = [part for part in message.parts if isinstance(part, ToolResult)]
            refused |= {result.call_id for result in texts if result.status != "ok"}
            for text in [result.text for result in texts] + ([message.text] if message.role == "user" else []):
                if found := DONE.search(text):
                    read[path, found[1], found[2]] += 1
    verdict.results = sum(read.values())
    finished = {errand for _, errand in world.said} - {errand for _, errand in world.dead if errand is not None}
    for (path, word, name), times in read.items():
        if times > 1:
            yield "results_doubled", f"{path} was told {times} times that {word} {name} is done"
    for path, errand in world.heard:
        for task, call in zip(_given(errand), calls_of(errand), strict=False):
            times = read[path, task.verb, task.name]
            if task in finished and not times and errand in finished:
                yield "results_lost", f"{path} was not told that {task} is done"
            elif task not in finished and errand in finished and call.id not in refused and errand.verb != "later":
                yield "results_lost", f"{path} was told neither that {task} is done nor that it failed"


def _answers(db: apsw.Connection, world: World, ledger: Ledger) -> Iterator[Finding]:
    """What a person is told of a message has each result once, and no other."""
    stored = {
        str(key): str(result) for key, result in db.execute("SELECT key, unpacked(result) FROM inbox WHERE state = 1")
    }
    dead = {errand for _, errand in world.dead}
    for sent in ledger.acknowledged:
        if sent.errand.verb not in TASKS or sent.errand.verb == "later" or sent.key not in stored:
            continue
        mine = [line for line in stored[sent.key].splitlines() if line.startswith(f"ack {sent.errand.verb} ")]
        lines = [line for line in mine if line.split()[2:4] == [sent.errand.sender, str(sent.errand.number)]]
        told = Counter(_HEARD.findall(" ".join(lines)))
        for task in _given(sent.errand):
            times = told.pop((task.verb, task.name), 0)
            if times > 1:
                yield "results_doubled", f"the answer to {sent.errand} has the result of {task} {times} times"
            elif not times and task not in dead and " error" not in " ".join(lines):
                yield "results_lost", f"the answer to {sent.errand} has no result of {task}: {lines}"
        if told:
            yield "broken", f"the answer to {sent.errand} has results that it did not ask for: {told}"


def _orphans(db: apsw.Connection) -> Iterator[Finding]:
    """After quiet nobody waits, and no helper has anything to do or outlives its parent."""
    for what, sql in (
        ("answers are waited for", "SELECT key FROM waits"),
        ("messages are held", "SELECT path FROM inbox WHERE state = 3"),
        ("helpers work", "SELECT path FROM inbox WHERE state IN (0, 3) AND path LIKE '%/sub/%'"),
        (
            "helpers live on after their parents",
            "SELECT path FROM agents a WHERE kind = 'sub' AND state <> 'dead' AND NOT EXISTS"
            " (SELECT 1 FROM agents p WHERE p.id = a.parent AND p.state <> 'dead')",
        ),
    ):
        found = [str(row[0]) for row in db.execute(sql)]
        if found:
            yield "orphans", f"after all was quiet, {len(found)} {what}: {found[:5]}"
