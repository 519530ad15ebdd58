"""The judge of what people allow: each request is decided as they said, and each effect is there once, or in doubt."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import apsw

from daycare.base.messages import ToolCall, ToolResult
from tests.crash.given_up import NOT_RUN
from tests.crash.judge import World
from tests.crash.ledger import Finding
from tests.crash.mind import WISHES, calls_of, is_approved

_PROPOSED = re.compile(r"^(?:proposed, )?request (\d+)\b")  # without it: a repeat, which is decided by now
_FULL = re.compile(r"\[?APPROVALS_OPEN\b|which is the most")
_STATES = {"approve": "approved", "reject": "rejected"}


@dataclass
class Asked:
    """What deciders know, by the number of a request: which there are, what was sent, and what was acknowledged."""

    seen: set[int] = field(default_factory=set)
    sent: dict[int, str] = field(default_factory=dict)
    decided: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A request as the store has it."""

    no: int
    state: str
    tool: str
    word: str
    made_in: int | None

    def __str__(self) -> str:
        return f"request {self.no} ({self.tool} {self.word}, {self.state})"


def approved(
    db: apsw.Connection, asked: Asked, effects: Mapping[tuple[str, str], int], counted: Counter[str]
) -> Iterator[Finding]:
    """Compare, once all is quiet and the daemon has stopped; `counted` gets the figures."""
    world = World(db)
    requests = {it.no: it for it in _requests(db)}
    counted.update(it.state for it in requests.values())
    yield from _decided(requests, asked)
    yield from _proposed(world, requests, counted)
    yield from _done(db, world, requests, effects, counted)
    yield from _changes(db)


def _requests(db: apsw.Connection) -> Iterator[Request]:
    for no, state, action, made_in in db.execute("SELECT no, state, action, made_in FROM approvals ORDER BY no"):
        wanted = json.loads(str(action))
        call = ToolCall("", wanted["tool"], wanted["arguments"])
        yield Request(
            int(str(no)), str(state), call.name, word_of(call), None if made_in is None else int(str(made_in))
        )


def word_of(call: ToolCall) -> str:
    """Return the name of the errand that a call is for."""
    found = re.search(r"\bs\d+-\d+\b", json.dumps(call.arguments))
    return found[0] if found else ""


def _decided(requests: Mapping[int, Request], asked: Asked) -> Iterator[Finding]:
    """What was acknowledged holds, and nothing was decided that nobody has sent."""
    for no in asked.seen - requests.keys():
        yield "lost", f"request {no}, which was shown"
    for no, it in requests.items():
        verdict = asked.decided.get(no)
        if verdict is not None and it.state != _STATES[verdict]:
            yield "decisions_lost", f"{it}: {verdict} was acknowledged"
        if it.state != "pending" and it.state != _STATES.get(asked.sent.get(no, "")):
            yield "broken", f"{it}: sent was {asked.sent.get(no)}"


def _proposed(world: World, requests: Mapping[int, Request], counted: Counter[str]) -> Iterator[Finding]:
    """Each call that was proposed is one request, of just that call, and each request was proposed."""
    proposed: Counter[int] = Counter()
    for at, (path, messages) in enumerate(world.turns):
        calls = {call.id: call for message in messages for call in message.tool_calls}
        for result in (part for message in messages for part in message.parts if isinstance(part, ToolResult)):
            call = calls.get(result.call_id)
            if call is None or call.name not in WISHES.values() or is_approved(call.id):
                continue
            found = _PROPOSED.match(result.text)
            if found is None:
                counted["refused"] += bool(_FULL.search(result.text))
                if not _FULL.search(result.text) and not (at in world.given_up and NOT_RUN.search(result.text)):
                    yield "broken", f"{path} wanted {call.name} {word_of(call)}: {result.status}: {result.text}"
                continue
            it = requests.get(int(found[1]))
            if it is None or (it.tool, it.word) != (call.name, word_of(call)):
                yield "lost", f"{path} has asked for {call.name} {word_of(call)} by request {found[1]}: there is {it}"
            proposed[int(found[1])] += 1
    dead = {wish.id for _, errand in world.dead if errand is not None for wish in calls_of(errand)}
    for no, it in requests.items():
        if proposed[no] > 1:
            yield "doubled", f"{it} was proposed {proposed[no]} times"
        elif not proposed[no] and f"call-{it.word}" not in dead:
            yield "broken", f"{it}: nobody has proposed it"
    words = Counter((it.tool, it.word) for it in requests.values())
    for (tool, word), times in words.items():
        if times > 1 and f"call-{word}" not in dead:
            yield "doubled", f"{tool} {word} was asked for {times} times"


def _done(
    db: apsw.Connection,
    world: World,
    requests: Mapping[int, Request],
    effects: Mapping[tuple[str, str], int],
    counted: Counter[str],
) -> Iterator[Finding]:
    """What was approved is there once, or in doubt, which the person was told; nothing else is there."""
    told = [text for _, text in world.outbox if text.startswith("Note: I was interrupted")]
    given_up = {str(key) for (key,) in db.execute("SELECT body ->> '$.key' FROM dead_letters WHERE source = 'inbox'")}
    results: dict[str, list[ToolResult]] = {}
    for _, messages in world.turns:
        for part in (part for message in messages for part in message.parts if isinstance(part, ToolResult)):
            results.setdefault(part.call_id, []).append(part)
    allowed: set[tuple[str, str]] = set()
    for no, it in requests.items():
        if it.state != "approved":
            continue
        allowed.add((it.tool, it.word))
        times = effects.get((it.tool, it.word), 0)
        found = results.get(f"approved_{no}", [])
        status = found[0].status if len(found) == 1 else ""
        counted[f"{it.tool} {status or 'given up'}"] += 1
        if times > 1:
            yield "repeated_tools", f"{it}: {times} times"
        if len(found) > 1:
            yield "repeated_tools", f"{it} has {len(found)} results"
        elif status == "uncertain":
            warnings = sum(f'"{it.word}"' in text or f"echo {it.word} " in text for text in told)
            if warnings != 1:
                yield "untold", f"{it} is uncertain; the person was told {warnings} times"
        elif status == "ok" and not times:
            yield "lost", f"{it} says that it is done, and it is not: {found[0].text}"
        elif status == "error" or (status == "ok" and it.tool == "shell" and "[exit code 0," not in found[0].text):
            yield "broken", f"{it}: {found[0].text}"
        elif not found and f"approval:{no}" not in given_up:
            yield "lost", f"{it} was never made; its turn is {it.made_in}"
    for tool, word in effects:
        if tool in WISHES.values() and (tool, word) not in allowed:
            yield "unapproved", f"{tool} {word} has happened"


def _changes(db: apsw.Connection) -> Iterator[Finding]:
    """Each file was written once."""
    for file, times in db.execute("SELECT file, count(*) FROM file_changes GROUP BY folder, file HAVING count(*) > 1"):
        yield "repeated_tools", f"{file} was written {times} times"
