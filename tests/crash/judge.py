"""Compares a daemon's database with what the outside world knows. Reads with SQL of its own, not with the store's."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import apsw
import msgspec

from daycare.base.messages import Envelope, Message, ToolCall, ToolResult
from tests.crash.given_up import NOT_RUN, letters, undocumented
from tests.crash.ledger import Finding, Ledger, Sent
from tests.crash.mind import ALL_TASKS, WISHES, Errand, calls_of, errand_of

_decode_history = msgspec.json.Decoder(tuple[Message, ...]).decode
_decode_envelope = msgspec.json.Decoder(Envelope).decode
# How storm control refuses: after many stops one turn works off a backlog, and writes more than a minute may bring.
_REFUSED = re.compile(r"wrote each other over \d+ messages a minute|this exchange was stopped: ")


@dataclass
class Verdict:
    """What the judge saw: broken promises, and what is no fault but worth knowing."""

    findings: list[Finding] = field(default_factory=list)
    parked: int = 0  # dead letters
    uncertain_tools: int = 0  # of which the person was told
    turns: int = 0
    results: int = 0  # what agents were told by those they asked
    refused: int = 0  # messages that storm control did not let pass, of which the sender was told


def judge(db: apsw.Connection, ledger: Ledger, tools: Counter[str]) -> Verdict:
    """Compare, once all is quiet and the daemon has stopped."""
    from tests.crash.delegation import delegated  # which knows a world from here

    world = World(db)
    verdict = Verdict(list(ledger.findings), len(world.dead), turns=len(world.turns))
    for part in (
        _left(db),
        _inbox(db, ledger),
        _said(world, ledger),
        _followed(world, ledger),
        _order(world, ledger),
        _replies(world, ledger),
        _tools(world, tools, verdict),
        delegated(db, world, ledger, verdict),
        _shown(db, ledger),
        undocumented(db, ledger.kills),
    ):
        verdict.findings += part
    return verdict


class World:
    """The tables as the judge needs them."""

    def __init__(self, db: apsw.Connection) -> None:
        ended = [
            (int(str(turn)), str(path), _decode_history(str(messages)))
            for turn, path, messages in db.execute(
                "SELECT turn, path, unpacked(messages) FROM history JOIN agents ON agents.id = agent_id"
                " WHERE history.state <> 'continued' AND kind <> 'system' ORDER BY turn"
            )
        ]
        self.turns = [(path, messages) for _, path, messages in ended]
        given_up = {it.turn for it in letters(db)}
        self.given_up = {at for at, (turn, _, _) in enumerate(ended) if turn in given_up}  # places in `turns`
        # The turn that took a message first: one that is set aside goes on under other numbers. One of several messages
        # that is split after crashes gives them back, and each is taken by itself.
        self.taken: dict[int, int] = {}
        for turn, seqs in db.execute(
            "SELECT turn, seqs FROM turns LEFT JOIN history h USING (turn) WHERE h.state IS NOT 'split' ORDER BY turn"
        ):
            for seq in json.loads(str(seqs)):
                self.taken.setdefault(int(seq), int(str(turn)))
        self.said: list[tuple[str, Errand]] = [
            (path, errand)
            for path, messages in self.turns
            for message in messages
            if message.role == "user" and (errand := errand_of(message.text))
        ]
        self.dead: list[tuple[str, Errand | None]] = []
        self.buried: set[tuple[str, Errand | None]] = set()  # of them the messages that were accepted
        for path, source, body in db.execute("SELECT path, source, body FROM dead_letters"):
            text = str(body) if source == "outbox" else _decode_envelope(str(body)).text
            self.dead.append((str(path), errand_of(text)))
            self.buried |= {self.dead[-1]} if source == "inbox" else set()
        self.heard = Counter(self.said)
        self.refused = {
            part.call_id
            for _path, messages in self.turns
            for message in messages
            for part in message.parts
            if isinstance(part, ToolResult) and part.status == "error" and _REFUSED.search(part.text)
        }
        self.outbox = [
            (int(str(turn or 0)), str(text)) for turn, text in db.execute("SELECT turn, text FROM outbox ORDER BY seq")
        ]


def _left(db: apsw.Connection) -> Iterator[Finding]:
    """After quiet nothing waits but for the daemon's own agents, and the file is sound."""
    [(sound,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
    if sound != "ok":
        yield "broken", f"integrity_check: {sound}"
    others = "agent_id NOT IN (SELECT id FROM agents WHERE kind = 'system')"
    for what, sql in (
        ("messages wait", f"SELECT count(*) FROM inbox WHERE state IN (0, 3) AND {others}"),
        ("turns are open", f"SELECT count(*) FROM turns WHERE turn NOT IN (SELECT turn FROM history) AND {others}"),
        ("timers wait", "SELECT count(*) FROM timers"),
    ):
        [(number,)] = db.execute(sql).fetchall()
        if number:
            yield "broken", f"after all was quiet, {number} {what}"


def _inbox(db: apsw.Connection, ledger: Ledger) -> Iterator[Finding]:
    rows: dict[tuple[str, str], list[tuple[int, str | None]]] = {}
    for path, key, seq, result in db.execute(
        "SELECT path, key, seq, unpacked(result) FROM inbox NOT INDEXED ORDER BY seq"
    ):
        rows.setdefault((str(path), str(key)), []).append((int(str(seq)), None if result is None else str(result)))
    for (path, key), found in rows.items():
        if len(found) > 1:
            yield "doubled", f"{path} has {len(found)} messages with the key {key}"
    for sent in ledger.acknowledged:
        found = rows.get((sent.path, sent.key), [])
        if not found:
            yield "lost", f"the row of {sent.errand} to {sent.path}, acknowledged as {sent.seq}"
        elif found[0][0] != sent.seq:
            yield "reordered", f"{sent.errand} has the number {found[0][0]}, its receipt says {sent.seq}"
        elif sent.result is not None and found[0][1] != sent.result:
            yield "broken", f"{sent.errand} was answered {sent.result!r}, its row says {found[0][1]!r}"


def _said(world: World, ledger: Ledger) -> Iterator[Finding]:
    """What was acknowledged is in the conversation once, or a dead letter."""
    for sent in ledger.acknowledged:
        yield from _once(world, sent.path, sent.errand, f"acknowledged as {sent.seq}")
    known = {(sent.path, sent.errand) for sent in ledger.sent.values()}
    for path, errand in world.heard:
        if errand.verb not in ("reminded", "told", *ALL_TASKS) and (path, errand) not in known:
            yield "broken", f"{path} heard {errand}, which nobody said to it"


def _followed(world: World, ledger: Ledger) -> Iterator[Finding]:
    """What a turn set going inside the daemon has happened once: reminders and messages to other agents."""
    expected: set[tuple[str, Errand]] = set()
    for sent in ledger.acknowledged:
        errand = sent.errand
        if errand.verb not in ("remind", "tell") or not _concluded(world, sent):
            continue
        if any(call.id in world.refused for call in calls_of(errand)):
            continue
        verb, path = ("reminded", sent.path) if errand.verb == "remind" else ("told", errand.path)
        follower = Errand(verb, errand.sender, errand.number)
        expected.add((path, follower))
        yield from _once(world, path, follower, f"it follows from {errand}")
    for path, errand in world.heard:
        if errand.verb in ("reminded", "told") and (path, errand) not in expected:
            yield "broken", f"{path} heard {errand}, which follows from nothing"


def _once(world: World, path: str, errand: Errand, why: str) -> Iterator[Finding]:
    times = world.heard[path, errand]
    if times > 1:
        yield "doubled", f"{errand} is {times} times in the conversation of {path}"
    elif not times and (path, errand) not in world.dead:
        yield "lost", f"{errand} is neither in the conversation of {path} nor a dead letter ({why})"


def _concluded(world: World, sent: Sent) -> bool:
    """Tell whether the turn with this message ended well, so that its effects must have happened."""
    return world.heard[sent.path, sent.errand] > 0 and (sent.path, sent.errand) not in world.dead


def _order(world: World, ledger: Ledger) -> Iterator[Finding]:
    """Each agent takes up one sender's messages in order. What was steered into a turn has no place of its own."""
    newest: dict[tuple[str, str], int] = {}
    places = {sent.errand: world.taken.get(sent.seq or 0, 0) for sent in ledger.sent.values()}
    for path, errand in sorted(world.said, key=lambda said: places.get(said[1], 0)):
        if not places.get(errand):
            continue
        before = newest.get((path, errand.sender), 0)
        if errand.number < before:
            yield "reordered", f"{path} heard {errand} after number {before} of that sender"
        newest[path, errand.sender] = max(before, errand.number)


def _replies(world: World, ledger: Ledger) -> Iterator[Finding]:
    """Each message of a person is answered in one reply, and no turn says the same thing twice."""
    for (turn, text), times in Counter(world.outbox).items():
        if turn and times > 1:
            yield "doubled", f"turn {turn} replied {times} times: {text!r}"
    answered: Counter[tuple[str, str, int]] = Counter()
    for line in (line for _, text in set(world.outbox) for line in text.splitlines() if line.startswith("ack ")):
        verb, sender, number = line.split()[1:4]
        answered[verb, sender, int(number)] += 1
    for sent in ledger.acknowledged:
        errand = sent.errand
        times = answered[errand.verb, errand.sender, errand.number]
        if times > 1:
            yield "doubled", f"{errand} was answered in {times} turns"
        elif times and (sent.path, errand) in world.buried:
            yield "doubled", f"{errand} was answered, and is a dead letter"
        elif not times and _concluded(world, sent):
            yield "lost", f"the answer to {errand}"


def _tools(world: World, lines: Counter[str], verdict: Verdict) -> Iterator[Finding]:
    """A tool that may not be repeated ran at most once, and its result says what is so."""
    told = [text for _, text in world.outbox if text.startswith("Note: I was interrupted")]
    seen: Counter[str] = Counter()
    again: Counter[str] = Counter()  # what was done for a message before it got a turn of its own
    for at, (path, messages) in enumerate(world.turns):
        own = {call.id for message in messages if message.role == "user" for call in _wishes(message)}
        calls = {call.id: call for message in messages for call in message.tool_calls}
        for result in (part for message in messages for part in message.parts if isinstance(part, ToolResult)):
            call = calls.get(result.call_id)
            if call is None:
                yield "broken", f"{path}: a result without its call: {result}"
                continue
            if at in world.given_up and call.id not in own:
                again[f"charge {call.arguments.get('account')}"] += 1
                continue
            seen[call.id] += 1
            if call.name in ("ask", "spawn", *WISHES.values()):
                continue
            if at in world.given_up and result.status == "error" and NOT_RUN.search(result.text):
                continue
            if call.name == "send_message" and call.id in world.refused:
                verdict.refused += 1
                continue
            if call.name not in ("note", "charge", "dawdle"):
                if result.status != "ok":
                    yield "broken", f"{call.name} of {path}: {result.status}: {result.text}"
                continue
            account = str(call.arguments.get("word") or call.arguments.get("account"))
            times = lines[f"{'note' if call.name == 'note' else 'charge'} {account}"]
            if result.status == "ok" and not times:
                yield "lost", f"{call.name} {account} says that it ran, its ledger does not"
            elif result.status == "uncertain" and call.name != "note":
                verdict.uncertain_tools += 1
                warnings = sum(f'"{account}"' in text for text in told)
                if warnings != 1 and _for_person(world, path, call.id):
                    yield "broken", f"{call.name} {account} is uncertain; the person was told {warnings} times"
            elif result.status != "ok":
                yield "broken", f"{call.name} {account}: {result.status}: {result.text}"
    for line, times in lines.items():
        if line.startswith("charge ") and times > 1 + again[line]:
            yield "repeated_tools", f"{line}: {times} times"
    for name, times in seen.items():
        if times > 1:
            yield "repeated_tools", f"{name} has {times} results in the conversations"
    for path, errand in world.heard:
        for wish in calls_of(errand):
            if not seen[wish.id] and (path, errand) not in world.dead:
                yield "lost", f"the call of {wish.name} for {errand}"


def _wishes(message: Message) -> tuple[ToolCall, ...]:
    errand = errand_of(message.text)
    return calls_of(errand) if errand is not None else ()


def _for_person(world: World, path: str, call_id: str) -> bool:
    """Tell whether a call was made for a message of a person, who is to be told; here they all are."""
    return any(call_id == f"call-{errand.name}" for at, errand in world.heard if at == path)


def _shown(db: apsw.Connection, ledger: Ledger) -> Iterator[Finding]:
    """A reply whose confirmation was acknowledged stays confirmed."""
    states = dict(db.execute("SELECT seq, state FROM outbox"))
    for seq in ledger.shown:
        if states.get(seq) != 2:
            yield "lost", f"the confirmation of reply {seq}: its state is {states.get(seq)}"
