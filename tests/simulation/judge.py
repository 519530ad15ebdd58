"""The invariants of a house, read from its closed file by other eyes than its own, against the world's ledger."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from daycare.actors.lifecycle import Life
from daycare.actors.supervisor import Supervisor
from daycare.base.limits import ATTEMPTS_MAX
from daycare.base.messages import EnvelopeKind, Message, ToolResult
from daycare.store.sqlite.packing import unpack
from daycare.store.sqlite.store import Store
from tests.stored import as_file

from .world import ANSWERED, NAME, Said, World

WAITING, DONE, DEAD, HELD = 0, 1, 2, 3
LATE_MAX_MS = 61_000  # the timers look at the wall clock once a minute
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode


@dataclass
class Findings:
    """What an inspection found."""

    problems: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)


@dataclass
class Told:
    """A turn that ended, as its history tells it."""

    turn: int
    agent: str
    path: str
    state: str
    ended_at: int
    history: tuple[Message, ...]
    names: list[str] = field(default_factory=list)  # of the messages it read, in order
    results: dict[str, tuple[Any, ToolResult]] = field(default_factory=dict)  # by call id and place

    @property
    def uncertain(self) -> int:
        """How many of its calls may or may not have taken effect."""
        return sum(result.status == "uncertain" for _, result in self.results.values())


def inspect(file: Path, ledger: Path, world: World, *, quiet: bool) -> Findings:
    """Check all that must hold between two lives of a house; `quiet` says that nothing may be left to do."""
    from . import delegation  # which knows a case from here

    case = Case(file, ledger, world)
    case.messages()
    case.order()
    case.turns()
    case.effects()
    case.reminders()
    case.charges()
    case.sessions()
    delegation.inspect(case)
    if quiet:
        case.rest()
    return case.found


class Case:
    """A house's closed file, and what the world knows of it."""

    def __init__(self, file: Path, ledger: Path, world: World) -> None:
        self.found = Findings()
        self.world = world
        self.lines = Counter(ledger.read_text().splitlines() if ledger.exists() else [])
        self.lines.update(f"haul {load}" for load in world.hauled)
        with closing(sqlite3.connect(as_file(file))) as db:
            db.row_factory = sqlite3.Row
            db.create_function("unpacked", 1, lambda stored: None if stored is None else unpack(stored))
            self.inbox = _rows(db, "SELECT * FROM inbox ORDER BY seq")
            self.outbox = _rows(db, "SELECT * FROM outbox ORDER BY seq")
            self.dead = _rows(db, "SELECT * FROM dead_letters ORDER BY no")
            self.timers = _rows(db, "SELECT * FROM timers")
            self.waits = _rows(db, "SELECT * FROM waits")
            self.agents = {row["id"]: row for row in _rows(db, "SELECT * FROM agents")}
            self.living = {agent["path"] for agent in self.agents.values() if agent["state"] != "dead"}
            self.all_steps = _rows(db, "SELECT * FROM steps ORDER BY turn, step")
            self.session_rows = _rows(db, "SELECT * FROM sessions")
            turns = _rows(
                db,
                "SELECT t.*, coalesce(h.state, 'open') AS state, h.ended_at, unpacked(h.messages) AS messages"
                " FROM turns t LEFT JOIN history h USING (turn) ORDER BY turn",
            )
        self.turns_by_number = {row["turn"]: row for row in turns}
        self.told = [
            _told(row, self.agents[row["agent_id"]]["path"], self.problem)
            for row in turns
            if row["state"] not in ("open", "split", "continued")
        ]
        self.open = [row for row in turns if row["state"] == "open"]
        # The journal of a turn that has not ended, or ended with its agent, which wrote no history.
        unwritten = {row["turn"] for row in turns if row["state"] == "open" or row["messages"] == "[]"}
        self.steps = [step for step in self.all_steps if step["turn"] in unwritten]
        self.aside = {wait["turn"] for wait in self.waits if wait["aside"]}
        # Where each message was first taken up: a turn that was set aside goes on under other numbers.
        self.taken: dict[int, int] = {}
        for row in turns:
            if row["state"] != "split":
                for seq in json.loads(row["seqs"]):
                    self.taken.setdefault(seq, row["turn"])
        newest = {row["agent_id"]: row["turn"] for row in turns}
        for turn in self.open:
            if newest[turn["agent_id"]] != turn["turn"] and turn["turn"] not in self.aside:
                self.problem(f"turn {turn['turn']} of {turn['agent_id']} is open, and not the newest")
        self.read = Counter(name for told in self.told for name in told.names)
        self.by_key = {(row["agent_id"], row["key"]): row for row in self.inbox}
        awaited = {(step["turn"], json.loads(step["body"]).get("wait")) for step in self.all_steps}
        # Rows that were a call's result, or came too late for anybody: they belong to a turn and are no message of it.
        self.no_messages = {
            row["seq"]
            for row in self.inbox
            if row["kind"] == "result"
            if row["key"].startswith("late:")
            or self.is_stale(row)
            or (row["turn"], row["key"].partition(":")[2]) in awaited
        }
        self.letters = Counter(letter["seq"] for letter in self.dead if letter["source"] == "inbox")
        self.found.figures = {
            "said": len(world.said),
            "answered": sum(row["state"] == DONE for row in self.inbox),
            "dead": len(self.dead),
            "turns": len(self.told),
            "timers": sum(":t" in row["key"] for row in self.inbox),
            "uncertain": sum(told.uncertain for told in self.told),
            "continued": sum(row["state"] == "continued" for row in turns),
        }

    def problem(self, text: str) -> None:
        self.found.problems.append(text)

    def messages(self) -> None:
        """What was acknowledged is there: waiting, answered exactly once, or visibly dead."""
        answers = Counter(name for row in self.outbox if _is_answer(row) for name in ANSWERED.findall(row["text"]))
        for said in self.world.said:
            row = self.by_key.get((self.world.ids[said.path], said.key))
            if row is None or (said.seq is not None and row["seq"] != said.seq):
                if said.seq is not None:
                    self.problem(f"{said.name} was acknowledged as {said.seq}; in the inbox: {row}")
            elif said.is_command:
                self._command(said, row)
            else:
                self._message(said, row, answers[said.name])
        for name, times in self.read.items():
            if times != 1:
                self.problem(f"{name} is in the history {times} times")
        for name, times in answers.items():
            if times != 1:
                self.problem(f"{name} was answered {times} times")

    def _command(self, said: Said, row: dict[str, Any]) -> None:
        replies = [reply for reply in self.outbox if reply["trace"] == row["trace"]]
        if row["state"] == DEAD or len(replies) != (row["state"] == DONE):
            self.problem(f"command {said.name} ({said.text}) in state {row['state']} has {len(replies)} replies")

    def _message(self, said: Said, row: dict[str, Any], answers: int) -> None:
        state, times = row["state"], self.read[said.name]
        told = next((told for told in self.told if said.name in told.names), None)
        if state in (WAITING, HELD):
            if times or answers or said.name not in row["text"]:
                self.problem(f"{said.name} waits, and is in the history {times} times, answered {answers} times")
        elif told is None or times != 1:
            self.problem(f"{said.name} ended in state {state}, and is in the history {times} times")
        elif state == DONE:
            if row["turn"] != told.turn or told.state not in ("done", "stopped"):
                self.problem(f"{said.name} is done by turn {row['turn']}, and in the history of {told.turn}")
            if answers != (told.state == "done"):
                self.problem(f"{said.name} was answered {answers} times by turn {told.turn} ({told.state})")
        elif self.letters[row["seq"]] != 1 or answers or told.state != "parked":
            self.problem(f"{said.name} died in turn {told.turn} ({told.state}), answered {answers} times")

    def order(self) -> None:
        """Each agent reads its messages in the order of their commits, and its history has all of them."""
        last: Counter[str] = Counter()
        of_turn: dict[int, list[dict[str, Any]]] = {}
        for row in self.inbox:
            if row["turn"] is not None and row["seq"] not in self.no_messages:
                of_turn.setdefault(row["turn"], []).append(row)
        names = {said.seq: said.name for said in self.world.said if said.seq is not None and not said.is_command}
        taken = []
        for told in self.told:
            if told.state == "parked":
                continue
            rows = of_turn.get(told.turn, [])
            users = sum(message.role == "user" for message in told.history)
            if users != len(rows):
                self.problem(f"turn {told.turn} took {len(rows)} messages, its history has {users}")
            expected = [names[row["seq"]] for row in rows if row["seq"] in names]
            read = [name for name in told.names if name[0] == "m"]
            if expected != read:
                self.problem(f"turn {told.turn} of {told.path} should have read {expected}, and read {read}")
            seqs = [row["seq"] for row in rows if row["kind"] != "result"]  # those come out of order
            if seqs:
                taken.append((min(self.taken[seq] for seq in seqs if seq in self.taken), told, seqs))
        for begun, told, seqs in sorted(taken, key=lambda each: each[0]):
            if seqs[0] <= last[told.agent]:
                self.problem(f"turn {told.turn} of {told.path} took {seqs} after {last[told.agent]}")
            if begun != told.turn:  # what was said while it waited may have been steered into it long after
                seqs = [seq for seq in seqs if self.taken.get(seq) == begun]
            last[told.agent] = max([last[told.agent], *seqs])

    def turns(self) -> None:
        """Each turn says what it has to say to each address once; a letter lies for each message given up."""
        replies: dict[int, list[str]] = {}
        for row in self.outbox:
            if row["turn"] is not None:
                replies.setdefault(row["turn"], []).append(row["text"])
        for told in self.told:
            texts = replies.pop(told.turn, [])
            asked = [name for name in told.names if name[0] not in "qh"]
            notices = sum(message.role == "user" for message in told.history) - len(told.names)
            heard = any(name[0] == "m" for name in asked) or (told.path.endswith("/direct") and (asked or notices))
            expected = told.uncertain + (told.state != "stopped") if heard else 0
            if "/agent/" in told.path and any(name[0] == "r" for name in asked) and told.state == "done":
                expected = told.uncertain + 1  # a reminder of a permanent agent, told in its person's conversation
            if len(texts) != expected or len(set(texts)) != len(texts):
                self.problem(f"turn {told.turn} ({told.state}) should say {expected} things, and says {texts}")
        for turn, texts in replies.items():
            self.problem(f"turn {turn} has not ended, and says {texts}")
        for row in self.inbox:
            if self.letters[row["seq"]] != (row["state"] == DEAD):
                self.problem(f"message {row['seq']} in state {row['state']} has {self.letters[row['seq']]} letters")
        for letter in self.dead:
            path = json.loads(letter["body"]).get("to")  # what is sent to a helper that has been dismissed
            ended = letter["code"] == "AGENT_DEAD" and self.is_dead(letter["agent_id"])
            ended |= letter["code"] == "AGENT_UNKNOWN" and "/sub/" in path and path not in self.living
            if not ended and (letter["source"] != "inbox" or letter["attempts"] < ATTEMPTS_MAX):
                self.problem(f"letter {letter['no']}: {letter['code']} after {letter['attempts']} attempts")

    def effects(self) -> None:
        """What a committed turn sent or set a reminder for exists once; what no turn committed does not exist."""
        expected: Counter[str] = Counter()
        asked: set[str] = set()
        for told in self.told:
            for call, result in told.results.values():
                names = NAME.findall(str(call.arguments.get("text", "")))
                if call.name in ("remind", "send_message") and result.status == "ok" and told.state != "parked":
                    expected.update(names)
        for step in self.all_steps:
            if step["kind"] == "tool" and step["name"] in ("consult", "spawn"):
                asked.update(NAME.findall(step["body"]))
        there = Counter(self.read)
        for row in self.inbox:
            there.update(NAME.findall(row["text"] or ""))
        for row in self.timers:
            there.update(set(NAME.findall(row["envelope"])))
        for name in expected | there:
            if name[0] in "qh":
                if there[name] > 1 or name not in asked:
                    self.problem(f"question {name} exists {there[name]} times, asked: {name in asked}")
            elif name[0] in "rt" and there[name] != expected[name]:
                self.problem(f"{name} exists {there[name]} times, committed {expected[name]} times")

    def reminders(self) -> None:
        """No reminder comes early, and none late while the house was up and the clock went its way."""
        due: dict[str, int] = {}
        set_at: dict[str, int] = {}  # it exists from the end of the turn that asked for it
        came: dict[str, int] = {}
        for told in self.told:
            for call, result in told.results.values():
                if call.name == "remind" and result.status == "ok":
                    name = NAME.findall(call.arguments["text"])[0]
                    due[name], set_at[name] = _due_ms(result.text), told.ended_at
            for message in told.history:
                if message.role == "user" and message.text.startswith("Reminder due now"):
                    came[NAME.findall(message.text)[0]] = message.at_ms
        for name, at_ms in came.items():
            if name not in due:
                self.problem(f"reminder {name} came, and no turn that ended has set it")
                continue
            ready = max(due[name], set_at[name])
            steady = not any(ready - LATE_MAX_MS <= moment <= at_ms for moment in self.world.unsteady)
            if at_ms < due[name] or (steady and at_ms - ready > LATE_MAX_MS):
                self.problem(f"reminder {name} came {at_ms - due[name]} ms after its time, {at_ms - ready} late")

    def charges(self) -> None:
        """What must not be repeated happened at most once, and the history does not claim otherwise."""
        status = {}
        for told in self.told:
            for call, result in told.results.values():
                thing = call.arguments.get("account") or call.arguments.get("load")
                if call.name in ("charge", "haul") and thing:
                    status[f"{call.name} {thing}"] = result
        running = {
            f"{step['name']} {arguments.get('account') or arguments.get('load')}"
            for step in self.steps
            if step["kind"] == "tool" and (arguments := json.loads(step["body"])["arguments"]) is not None
        }
        for line, times in self.lines.items():
            if line.startswith(("charge", "haul")) and times > 1:
                self.problem(f"{line!r} happened {times} times")
            if line.startswith(("charge", "haul")) and line not in status and line not in running:
                self.problem(f"{line!r} happened, and no turn knows of the call")
            if line in status and status[line].status == "error":
                self.problem(f"{line!r} happened, and the history denies it: {status[line].text}")
        for line, result in status.items():
            if result.status == "ok" and self.lines[line] != 1:
                self.problem(f"{line!r} is told to have happened, and did {self.lines[line]} times")

    def sessions(self) -> None:
        """Each /reset that was obeyed began one session."""
        resets: Counter[str] = Counter()
        for said in self.world.said:
            row = self.by_key.get((self.world.ids[said.path], said.key))
            if row is not None and said.text.startswith("/reset") and row["state"] == DONE:
                resets[row["agent_id"]] += 1
        sessions = Counter(row["agent_id"] for row in self.session_rows)
        for agent_id in self.world.ids.values():
            if sessions[agent_id] != resets[agent_id] + 1:
                self.problem(f"{agent_id} has {sessions[agent_id]} sessions after {resets[agent_id]} resets")

    def rest(self) -> None:
        """Nothing is left to do."""
        waiting = [row["seq"] for row in self.inbox if row["state"] in (WAITING, HELD)]
        unheard = [said.name for said in self.world.said if said.seq is None]
        opened = [row["turn"] for row in self.open]
        if waiting or unheard or opened or self.timers or self.waits:
            left = f"timers {len(self.timers)}, waits {self.waits}"
            self.problem(f"at rest: waiting {waiting}, unheard {unheard}, open {opened}, {left}")

    def is_stale(self, result: dict[str, Any]) -> bool:
        """Tell whether a result was read in another conversation than the one it was asked for in."""
        reader = self.turns_by_number.get(result["turn"])
        asker = self.turns_by_number[int(result["key"].split(":")[3])]
        return reader is not None and reader["session"] != asker["session"]

    def is_dead(self, agent_id: str) -> bool:
        """Tell whether an agent has died."""
        return bool(self.agents[agent_id]["state"] == "dead")


async def compare(store: Store, supervisor: Supervisor, agents: Iterable[str]) -> list[str]:
    """Return where the lanes in memory differ from the store: lost wakes, forgotten or invented rows."""
    problems = []
    for agent_id in agents:
        # Reads of the store do not pass a checkpoint: all of this is one moment.
        waiting = [row.seq for row in await store.inbox.waiting(agent_id, limit=2_000)]
        agent = await store.agents.get(agent_id)
        lane = supervisor.awake.get(agent_id)
        if lane is None and supervisor.recovery.under_way:
            continue  # what it has is tried after the suspects
        if lane is None or lane.life is Life.IDLE:
            idle = lane is None or not (lane.rows or lane.control or (lane.life is Life.IDLE and lane.sleeper is None))
            if idle and waiting and agent is not None and agent.state == "living":
                problems.append(f"{agent_id} is {lane.life if lane else 'asleep'}, and {waiting} wait")
            continue
        answers = [row for row in lane.rows if row.envelope.kind is EnvelopeKind.RESULT]  # they stand first
        others = [row for row in lane.rows if row not in answers]
        if lane.rows != answers + others:
            problems.append(f"{agent_id} would read {[row.seq for row in lane.rows]} in this order")
        for rows in (answers, others, lane.control):
            seqs = [row.seq for row in rows]
            if seqs != sorted(set(seqs)) or not set(seqs) <= set(waiting):
                problems.append(f"{agent_id} holds {seqs} in memory, and {waiting} wait in the store")
    return problems


def _told(row: dict[str, Any], path: str, problem: Any) -> Told:
    told = Told(row["turn"], row["agent_id"], path, row["state"], row["ended_at"], _decode(row["messages"]))
    calls: list[Any] = []
    for place, message in enumerate(told.history):
        if message.role == "user":
            told.names += NAME.findall(message.text)
        elif message.role == "tool":
            for part in message.parts:
                if not isinstance(part, ToolResult) or not calls or calls[0].id != part.call_id:
                    problem(f"turn {told.turn}: the result {part} has no call before it")
                    continue
                told.results[f"{part.call_id}/{place}"] = (calls.pop(0), part)
        if message.role != "tool":
            if calls:
                problem(f"turn {told.turn}: calls without result: {calls}")
            calls = list(message.tool_calls)
    return told


def _due_ms(text: str) -> int:
    """Return what a person was told of a reminder's time, to the second."""
    told = datetime.strptime(text.split(" ", 4)[4], "%Y-%m-%d %H:%M:%S UTC")
    return round(told.replace(tzinfo=UTC).timestamp() * 1000)


def _is_answer(row: dict[str, Any]) -> bool:
    return str(row["text"]).startswith("answer:")


def _rows(db: sqlite3.Connection, sql: str) -> list[dict[str, Any]]:
    return [dict(row) for row in db.execute(sql)]
