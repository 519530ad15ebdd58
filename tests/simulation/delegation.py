"""What must hold of questions and helpers: each result arrives once, nobody works or waits in vain.

A question is the message with an errand named q or h; its result is the row that tells the asker. They find each other
by the key: `turn:7:2:ask0` is answered by `result:<asker>:turn:7:2:ask0`, or given up by `late:<asker>:...`.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from daycare.base.messages import ToolResult

from .judge import DEAD, DONE, HELD, WAITING, Case, Told
from .world import ANSWERED, NAME

OPEN = (WAITING, HELD)
STOPPED = "stopped"
NOBODY_WANTS_IT = "[stopped]"  # the last words of a turn that a person has stopped


@dataclass
class Errand:
    """One question: its row, the row of its result, and where the asker has read of it."""

    name: str
    question: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    late: dict[str, Any] | None = None
    asked: list[tuple[Told, ToolResult]] = field(default_factory=list)
    read: list[Told] = field(default_factory=list)  # turns that had the answer as a message


def inspect(case: Case) -> None:
    """Report what is wrong with questions, helpers and turns that wait."""
    errands = _errands(case)
    for errand in errands.values():
        _arrives_once(case, errand)
        _is_answered(case, errand)
    _nobody_works_in_vain(case, errands)
    _nothing_goes_on_that_was_stopped(case)
    _nobody_waits_in_vain(case)
    case.found.figures |= {
        "helpers": sum(agent["kind"] == "sub" for agent in case.agents.values()),
        "results": sum(_times(errand) for errand in errands.values()),
        "read_late": sum(len(errand.read) for errand in errands.values()),
    }


def _errands(case: Case) -> dict[str, Errand]:
    found: dict[str, Errand] = {}
    names = {told.turn: [name for name in told.names if name[0] in "qh"] for told in case.told}
    letters = {letter["seq"]: NAME.findall(letter["body"]) for letter in case.dead if letter["source"] == "inbox"}
    by_key = {row["key"].split(":", 2)[2]: row for row in case.inbox if row["key"].startswith("result:")}
    late = {row["key"].split(":", 2)[2]: row for row in case.inbox if row["key"].startswith("late:")}
    for row in case.inbox:
        if row["kind"] != "text" or ":ask" not in row["key"]:
            continue
        known = NAME.findall(row["text"] or "") or names.get(row["turn"]) or letters.get(row["seq"]) or []
        if len(known) != 1:
            case.problem(f"question {row['seq']} ({row['key']}) in state {row['state']} has the names {known}")
            continue
        errand = found.setdefault(known[0], Errand(known[0]))
        if errand.question is not None:
            case.problem(f"{errand.name} was asked twice: rows {errand.question['seq']} and {row['seq']}")
        errand.question, errand.result, errand.late = row, by_key.get(row["key"]), late.get(row["key"])
    for told in case.told:
        for call, result in told.results.values():
            for name in NAME.findall(str(call.arguments.get("task") or call.arguments.get("text") or "")):
                if call.name in ("consult", "spawn"):
                    found.setdefault(name, Errand(name)).asked.append((told, result))
        for message in told.history:
            if message.role == "user":
                for name in ANSWERED.findall(message.text):
                    found.setdefault(name, Errand(name)).read.append(told)
    return found


def _times(errand: Errand) -> int:
    """Return how often the answer was read."""
    braced = f"{{{errand.name}}}"
    return len(errand.read) + sum(braced in result.text for _, result in errand.asked)


def _arrives_once(case: Case, errand: Errand) -> None:
    """The answer is read once: as the result of the call, or as a message."""
    name, times = errand.name, _times(errand)
    if len(errand.asked) > 1:
        case.problem(f"the call for {name} is in {len(errand.asked)} histories")
    if times > 1 or (times and (errand.result is None or errand.result["state"] == WAITING)):
        case.problem(f"the answer to {name} was read {times} times; its row: {errand.result}")
    for _, result in errand.asked:
        braced = ANSWERED.findall(result.text)
        if braced and (braced != [name] or result.status != "ok"):
            case.problem(f"the call for {name} got {result}")
    if errand.question is None or errand.result is None or errand.result["state"] != DONE:
        return
    told = next((told for told in case.told if told.turn == errand.result["turn"]), None)
    answered = next((told for told in case.told if told.turn == errand.question["turn"]), None)
    said = answered is not None and answered.state == "done"
    if told is None:
        stopped = errand.result["result"] == STOPPED and not times  # it was still unread then
        if not stopped and not case.is_dead(errand.result["agent_id"]):
            case.problem(f"the result of {name} is done in no turn: {errand.result}")
    elif case.is_stale(errand.result):
        if times:
            case.problem(f"the answer to {name} was read in turn {told.turn}, in another conversation")
    elif said and times != 1 and not _unwanted(told):
        case.problem(f"the answer to {name} was taken by turn {told.turn} ({told.state}), and read {times} times")


def _unwanted(told: Told) -> bool:
    return told.state == "stopped" and told.history[-1].text == NOBODY_WANTS_IT


def _is_answered(case: Case, errand: Errand) -> None:
    """A question that ended has its result in the same commit, one that did not has none."""
    question, result = errand.question, errand.result
    if question is None:
        return
    if question["state"] in OPEN:
        if result is not None:
            case.problem(f"{errand.name} is not answered, and has the result {result}")
    elif result is None and not (
        _asker_is_dead(case, question) or case.is_dead(question["agent_id"]) or _was_dismissed(case, question)
    ):
        case.problem(f"{errand.name} ended in state {question['state']}, and nobody told who asked: {question}")


def _asker_is_dead(case: Case, question: dict[str, Any]) -> bool:
    return all(agent["state"] == "dead" for agent in case.agents.values() if agent["path"] == question["sender"])


def _was_dismissed(case: Case, question: dict[str, Any]) -> bool:
    """Tell whether who asked has told the helper to end, and the helper was killed before it could die of that."""
    return any(
        row["kind"] == "dismiss" and row["state"] == WAITING and row["sender"] == question["sender"]
        for row in case.inbox
        if row["agent_id"] == question["agent_id"]
    )


def _nobody_works_in_vain(case: Case, errands: dict[str, Errand]) -> None:
    """A helper lives no longer than its parent, and works on nothing that a person has stopped."""
    dismissed = {row["agent_id"] for row in case.inbox if row["kind"] == "dismiss" and row["state"] == WAITING}
    commanded = {row["agent_id"] for row in case.inbox if row["kind"] == "command" and row["state"] == WAITING}
    born = {errand.question["agent_id"]: errand for errand in errands.values() if errand.question is not None}
    stops: dict[str, list[dict[str, Any]]] = {}
    for row in case.inbox:
        if row["kind"] == "command" and row["state"] == DONE and row["result"] != "Nothing is running.":
            stops.setdefault(row["agent_id"], []).append(row)
    for helper in case.agents.values():
        if helper["kind"] != "sub" or helper["state"] == "dead" or helper["id"] in dismissed:
            continue
        parent, errand = helper["parent"], born.get(helper["id"])
        if errand is None or errand.question is None:
            case.problem(f"helper {helper['path']} has no task")
            continue
        question = errand.question
        if case.is_dead(parent):
            case.problem(f"orphan: {helper['path']} lives, and {case.agents[parent]['path']} is dead")
        if question["state"] not in OPEN or parent in commanded:
            continue
        stopped = [row["seq"] for row in stops.get(parent, ()) if row["seq"] > question["seq"]]
        if stopped or any(_unwanted(told) for told, _ in errand.asked):
            case.problem(f"orphan: {helper['path']} works on {errand.name}, which was stopped ({stopped})")
    for errand in errands.values():
        stopped_at = [told.ended_at for told, _ in errand.asked if errand.name[0] == "h" and _unwanted(told)]
        for told in errand.read if stopped_at else ():
            late = _stop_came_before_result(case, errand)
            if late and case.turns_by_number[told.turn]["started_at"] > stopped_at[0]:
                case.problem(f"turn {told.turn} read the answer to {errand.name} although that was stopped before")
    told_to_stop = {(row["agent_id"]): row for row in case.inbox if row["key"].startswith("stop:")}
    for errand in errands.values():
        stop = told_to_stop.get(errand.question["agent_id"]) if errand.question is not None else None
        if stop is not None and errand.read and errand.result and errand.result["seq"] > stop["seq"]:
            case.problem(f"the answer to {errand.name} was read although its helper was told to stop before it came")


def _stop_came_before_result(case: Case, errand: Errand) -> bool:
    """Tell whether a person said stop between a question and its result. A result that was there is read yet."""
    question, result = errand.question, errand.result
    if question is None or result is None:
        return False
    stops = [row["seq"] for row in case.inbox if row["agent_id"] == result["agent_id"] and row["kind"] == "command"]
    return any(question["seq"] < seq < result["seq"] for seq in stops)


def _nothing_goes_on_that_was_stopped(case: Case) -> None:
    """What a person has stopped or left behind by /reset while it waited does not go on with a late answer."""
    stops: dict[str, list[int]] = {}
    for row in case.inbox:
        if row["kind"] == "command" and row["state"] == DONE and row["result"] != "Nothing is running.":
            stops.setdefault(row["agent_id"], []).append(row["done_at"])
    ended = {told.turn: told.ended_at for told in case.told if told.state != STOPPED}
    for number in {*ended, *case.aside}:
        turn = case.turns_by_number[number]
        begun = min((case.taken[seq] for seq in json.loads(turn["seqs"])), default=number)
        if begun == number and number not in case.aside:
            continue
        since, until = (
            case.turns_by_number[begun]["started_at"],
            ended.get(number, max(stops.get(turn["agent_id"], [0])) + 1),
        )
        if any(since < at < until for at in stops.get(turn["agent_id"], ())) and not any(
            since <= moment <= until for moment in case.world.unsteady
        ):
            case.problem(f"turn {number} of {turn['agent_id']} was stopped while it waited, and went on")


def _nobody_waits_in_vain(case: Case) -> None:
    """Each wait has a turn and something that will end it; each held row has a turn that waits."""
    timers = {(timer["agent_id"], timer["key"]) for timer in case.timers}
    held: Counter[int] = Counter()
    for turn in case.aside:
        of_steps = [json.loads(step["body"]).get("seqs", ()) for step in case.all_steps if step["turn"] == turn]
        held.update({*json.loads(case.turns_by_number[turn]["seqs"]), *(seq for seqs in of_steps for seq in seqs)})
    for wait in case.waits:
        turn = case.turns_by_number.get(wait["turn"])
        if turn is None or turn["state"] != "open" or turn["agent_id"] != wait["agent_id"]:
            case.problem(f"{wait} has no turn that waits: {turn}")
            continue
        rows = [case.by_key.get((wait["agent_id"], f"{word}:{wait['key']}")) for word in ("result", "late")]
        coming = any(row is not None and row["state"] == WAITING for row in rows)
        if wait["aside"] and not coming and (wait["agent_id"], f"late:{wait['key']}") not in timers:
            case.problem(f"turn {wait['turn']} waits for {wait['key']}, which can never come")
    for turn, count in Counter(seq for seq in held.elements()).items():
        if count > 1:
            case.problem(f"message {turn} is held by {count} turns")
    for row in case.inbox:
        if (row["state"] == HELD) != (row["seq"] in held):
            case.problem(f"message {row['seq']} in state {row['state']} is held by {held[row['seq']]} turns")
        if row["state"] == DEAD and row["kind"] == "dismiss":
            case.problem(f"the dismissal {row['seq']} died")
