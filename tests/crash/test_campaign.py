"""A short slice of the campaign against a real daemon, and proofs that the judge would notice."""

import json
import random
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import apsw
import pytest
import trio
import trio.testing

from daycare.actors.loop_guard import PAIR_PER_MINUTE
from daycare.agent.provenance import Provenance
from daycare.plugin import InferRequest, StreamEvent
from daycare.testing.clock import VirtualClock, patient_clock
from daycare.testing.daemon import OWNER, open_daemon
from daycare.testing.daemon_process import DaemonProcess
from daycare.testing.scripted import Scripted
from daycare.tools.runner import Runner
from tests.chance import SEED
from tests.crash import campaign, mind
from tests.crash.cron import done, runs_of
from tests.crash.inject import targets_of
from tests.crash.judge import Verdict, judge
from tests.crash.ledger import KINDS, OF_ASKING, OF_MEMORY, OF_MONEY, OF_RESULTS, Finding, Ledger, Sent, tool_lines
from tests.crash.mind import Errand
from tests.cron.helpers import schedule

DIRECT, HELPER = f"/{OWNER}/direct", f"/{OWNER}/agent/helper"


@pytest.mark.parametrize(
    ("mode", "workload", "kills"),
    [
        ("kill", "messages", 2),
        ("kill", "delegation", 2),
        ("kill", "curation", 2),
        ("kill", "budget", 2),
        ("kill", "cron", 2),
        ("kill", "approvals", 2),
        ("syscall", "messages", 2),
    ],
)
def test_nothing_is_lost_doubled_or_reordered_by_killing_the_daemon(mode: str, workload: str, kills: int) -> None:
    print(f"python -m tests.crash --mode {mode} --workload {workload} --kills {kills} --seed {SEED}")
    figures = campaign.run(mode, kills, SEED, workload)
    kinds = (*KINDS, *OF_RESULTS, *OF_MEMORY, *OF_MONEY, *OF_ASKING)
    assert {kind: figures.counts[kind] for kind in kinds} == dict.fromkeys(kinds, 0)
    assert figures.kills == kills
    assert figures.acknowledged > kills
    assert figures.turns > 0
    assert figures.results > 0 or workload != "delegation"


class _Slow:
    """A daemon that is ready after eight seconds."""

    async def ready(self) -> float:
        return 8.0

    async def kill(self) -> None:
        pass


async def test_kills_of_a_slow_start_come_all_over_it(autojump_clock: object) -> None:
    killer, rng, waited = campaign.Delay(), random.Random(1), []
    for when in ("work", *["start"] * 40):
        began = trio.current_time()
        await killer.strike(cast(DaemonProcess, _Slow()), rng, cast(campaign.When, when))
        waited.append(trio.current_time() - began)
    assert min(waited) < 1.0 and 7.0 < max(waited) <= 8.0


@dataclass
class Past:
    """What a daemon left behind that was never killed, and what the world knows of it."""

    database: Path
    ledger: Ledger
    tools: Counter[str]

    def verdict(self) -> Verdict:
        """Ask the judge."""
        db = apsw.Connection(str(self.database))
        try:
            return judge(db, self.ledger, self.tools)
        finally:
            db.close()

    def copied(self, folder: Path) -> "Past":
        """Return one to be damaged."""
        shutil.copy(self.database, folder)
        return Past(folder / self.database.name, deepcopy(self.ledger), Counter(self.tools))


@pytest.fixture(scope="module")
def one_past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return _lived((*mind.VERBS, "charge", "m"), tmp_path_factory.mktemp("past"))


@pytest.fixture(scope="module")
def one_asked(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return _lived(mind.DELEGATIONS, tmp_path_factory.mktemp("asked"))


@pytest.fixture
def past(one_past: Past, tmp_path: Path) -> Past:
    return one_past.copied(tmp_path)


@pytest.fixture
def asked(one_asked: Past, tmp_path: Path) -> Past:
    """The same of agents that ask others and make helpers."""
    return one_asked.copied(tmp_path)


def _lived(verbs: Sequence[str], folder: Path) -> Past:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAYCARE_TEST_LEDGER", str(folder / "tools"))
        patch.setattr(Provenance, "__init__", mind.trusting(Provenance.__init__))
        return trio.run(_live, verbs, folder, clock=patient_clock())


async def _live(verbs: Sequence[str], folder: Path) -> Past:
    ledger = Ledger()
    async with open_daemon(
        folder, Scripted(mind.think), location="daycare.db", plugins=[mind.plugin], work=True
    ) as house:
        await house.agent(HELPER)
        for number, verb in enumerate(verbs, 1):
            errand = Errand(verb, "s0", number, HELPER if verb in ("tell", "ask") else "")
            sent = ledger.sent[errand.name] = Sent(errand, DIRECT, f"key {number}")
            receipt = await house.say(str(errand), key=sent.key, path=DIRECT)
            result = await house.hear(receipt)
            ledger.acknowledge(sent, receipt.seq, duplicate=receipt.duplicate, result=result)
        await trio.sleep(60)
        first = (await house.store.outbox.unread(DIRECT))[0]
        await house.store.outbox.sent([first.seq], "shown")
        ledger.confirm(first.seq, first.text)
    return Past(folder / "daycare.db", ledger, tool_lines(folder / "tools"))


def test_a_daemon_that_keeps_its_promises_is_found_faultless(past: Past) -> None:
    assert past.verdict() == Verdict(findings=[], parked=0, uncertain_tools=0, turns=9)
    assert past.tools == {"note s0-2": 1, "charge s0-3": 1, "charge s0-6": 1}


_SWAP = (
    "UPDATE turns SET turn = turn + 1000 WHERE turn IN (SELECT turn FROM history WHERE messages LIKE '%m s0 1\"%');"
    "UPDATE history SET turn = turn + 1000 WHERE messages LIKE '%m s0 1\"%';"
    "UPDATE history SET agent_id = (SELECT id FROM agents WHERE path LIKE '%direct')"
)
_TWICE = "INSERT INTO {0} ({1}) SELECT {1} FROM {0} WHERE {2} LIMIT 1"
_ROW = "agent_id, key, lane, state, kind, path, user, origin, sender, trace, created_at, result"
_REPLY = "agent_id, path, turn, connector, user, origin, trace, created_at, text"
_TURN = "agent_id, session, user, origin, state, ended_at, messages"
DAMAGES = [
    ("lost", "a message", "DELETE FROM history WHERE messages LIKE '%m s0 1\"%'"),
    ("lost", "an inbox row", "DELETE FROM inbox WHERE key = 'key 1'"),
    ("lost", "a reminder", "DELETE FROM history WHERE messages LIKE '%Reminder due%'"),
    ("lost", "a message to an agent", "DELETE FROM history WHERE messages LIKE '%told s0%not from the user%'"
     " OR messages LIKE '%not from the user%told s0%'"),
    ("lost", "an answer", "DELETE FROM outbox WHERE text LIKE 'ack m s0 7%'"),
    ("lost", "a confirmation", "UPDATE outbox SET state = 0 WHERE state = 2"),
    ("doubled", "an inbox row", f"DROP INDEX inbox_once; {_TWICE.format('inbox', _ROW, 'true')}"),
    ("doubled", "a turn", _TWICE.format("history", _TURN, "messages LIKE '%m s0 1\"%'")),
    ("doubled", "a reply", _TWICE.format("outbox", _REPLY, "text LIKE 'ack m s0 7%'")),
    ("doubled", "a reminder", _TWICE.format("history", _TURN, "messages LIKE '%Reminder due%'")),
    ("reordered", "turns", _SWAP),
    ("reordered", "numbers", "UPDATE inbox SET seq = 9999 WHERE key = 'key 1'"),
    ("broken", "a message that waits", "UPDATE inbox SET state = 0 WHERE key = 'key 7'"),
    ("broken", "an open turn", "DELETE FROM history WHERE turn = 1"),
    ("broken", "an uncertain tool nobody was told of",
     """UPDATE history SET messages = replace(messages, 's0-3","status":"ok"', 's0-3","status":"uncertain"')"""),
]  # fmt: skip


def _damage(past: Past, sql: str) -> None:
    db = _opened(past)
    before = db.total_changes()
    db.execute(sql).fetchall()
    assert db.total_changes() > before, "the damage was done"
    db.close()


def _opened(past: Past) -> apsw.Connection:
    """Return a connection to a store in which texts stand as they are."""
    db = apsw.Connection(str(past.database))
    db.execute("UPDATE history SET messages = unpacked(messages); UPDATE inbox SET result = unpacked(result)")
    return db


@pytest.mark.parametrize(("kind", "what", "damage"), DAMAGES, ids=[f"{kind} {what}" for kind, what, _ in DAMAGES])
def test_the_judge_sees_damage(past: Past, kind: str, what: str, damage: str) -> None:
    _damage(past, damage)
    assert kind in {found for found, _ in past.verdict().findings}, what


def test_a_daemon_whose_agents_helped_each_other_is_found_faultless(asked: Past) -> None:
    assert asked.verdict() == Verdict(findings=[], parked=0, uncertain_tools=0, turns=13, results=7)


def test_a_message_that_storm_control_refused_is_not_missed(
    tmp_path: Path,
) -> None:
    beyond = 3
    hasty = _lived(["tell"] * (PAIR_PER_MINUTE + beyond), tmp_path)
    verdict = hasty.verdict()
    assert (verdict.findings, verdict.refused) == ([], beyond)


_FIRST = "(SELECT id FROM agents WHERE path LIKE '%/sub/0')"
DAMAGES_OF_RESULTS = [
    ("results_lost", "a result in a conversation", "UPDATE history SET messages = replace(messages, 'done asked', '')"),
    ("results_lost", "a result in an answer", "UPDATE inbox SET result = replace(result, '[second s0-3]', '')"),
    ("results_lost", "a result that came as a message",
     "DELETE FROM history WHERE messages LIKE '%user):__<message ________________>__done first s0-5%'"),
    ("results_doubled", "a result in a conversation",
     _TWICE.format("history", _TURN, "messages LIKE '%user):__<message ________________>__done first s0-5%'")),
    ("results_doubled", "a result in an answer",
     "UPDATE inbox SET result = replace(result, '[first s0-2]', '[first s0-2] [first s0-2]')"),
    ("doubled", "a task", _TWICE.format("history", _TURN, "messages LIKE '%middle s0 4%'")),
    ("orphans", "a task of a helper", "UPDATE inbox SET state = 0 WHERE path LIKE '%/sub/0'"),
    ("orphans", "a message that is held", "UPDATE inbox SET state = 3 WHERE key = 'key 1'"),
    ("orphans", "a wait", f"INSERT INTO waits VALUES ('k', {_FIRST}, 1, 'ann', 'person', 1)"),
    ("orphans", "a helper without a parent", "UPDATE agents SET state = 'dead' WHERE path LIKE '%direct'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "what", "damage"), DAMAGES_OF_RESULTS, ids=[f"{kind} {what}" for kind, what, _ in DAMAGES_OF_RESULTS]
)
def test_the_judge_sees_damage_to_what_agents_asked_of_each_other(
    asked: Past, kind: str, what: str, damage: str
) -> None:
    _damage(asked, damage)
    assert kind in {found for found, _ in asked.verdict().findings}, what


DEATHS, ALONE = 5, 3  # as doc/operate/service.md has it: two crashes together with others, three alone


@pytest.fixture(scope="module")
def one_killed(tmp_path_factory: pytest.TempPathFactory) -> Past:
    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAYCARE_TEST_LEDGER", str(folder / "tools"))
        patch.setattr(Provenance, "__init__", mind.trusting(Provenance.__init__))
        patch.setattr(Runner, "run", _hangs)
        return trio.run(_die, folder, clock=patient_clock())


@pytest.fixture
def killed(one_killed: Past, tmp_path: Path) -> Past:
    """Of a daemon that was killed whenever it ran a tool or thought about a scheduled run, until it gave both up."""
    return one_killed.copied(tmp_path)


class _Thoughtful(Scripted):
    """Never has an answer to a scheduled run."""

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        if "tick" in request.messages[-1].text:
            await trio.sleep_forever()
        async for event in super().infer(request):
            yield event


async def _hangs(*_: object) -> None:
    await trio.sleep_forever()


async def _die(folder: Path) -> Past:
    """Leave each house in the middle of its turns, as if it had been killed."""
    clock, ledger = VirtualClock(), Ledger()
    sent = ledger.sent["s0-1"] = Sent(Errand("note", "s0", 1), DIRECT, "key 1")
    for death in range(DEATHS + ALONE + 1):
        async with open_daemon(
            folder, _Thoughtful(mind.think), location="daycare.db", plugins=[mind.plugin], clock=clock
        ) as house:
            if not death:
                receipt = await house.say(str(sent.errand), key=sent.key, path=DIRECT)
                ledger.acknowledge(sent, receipt.seq, duplicate=False, result=None)
                await schedule(house, "o1", "tick o1", at="2027-01-01T00:00:02Z")
            await trio.sleep(5)
        ledger.kills += 1
    return Past(folder / "daycare.db", ledger, tool_lines(folder / "tools"))


def test_turns_that_were_given_up_after_as_many_kills_as_is_documented_are_no_fault(killed: Past) -> None:
    assert killed.verdict() == Verdict(findings=[], parked=2, uncertain_tools=0, turns=2)
    assert _scheduled(killed) == []


def _scheduled(past: Past) -> list[Finding]:
    db = apsw.Connection(str(past.database))
    try:
        return list(done(db, runs_of(db)))
    finally:
        db.close()


_ANSWER = _TWICE.format("outbox", _REPLY, "true").replace(", text FROM", ", 'ack note s0 1 ok' FROM")
DAMAGES_OF_LETTERS = [
    ("broken", "fewer deaths", "UPDATE turns SET interrupted = 4"),
    ("broken", "another reason", "UPDATE dead_letters SET reason = 'it seemed best'"),
    ("broken", "another code", "UPDATE dead_letters SET code = 'TURN_CRASHED'"),
    ("broken", "another turn", "UPDATE history SET state = 'done' WHERE state = 'parked'"),
    ("doubled", "an answer", _ANSWER),
    ("doubled", "a row that is done", "UPDATE inbox SET state = 1 WHERE state = 2"),
    ("lost", "the letter alone", "DELETE FROM history WHERE messages LIKE '%note s0 1\"%'; DELETE FROM dead_letters"),
]


@pytest.mark.parametrize(
    ("kind", "what", "damage"), DAMAGES_OF_LETTERS, ids=[f"{kind} {what}" for kind, what, _ in DAMAGES_OF_LETTERS]
)
def test_the_judge_sees_what_was_given_up_and_should_not_have_been(
    killed: Past, kind: str, what: str, damage: str
) -> None:
    _damage(killed, damage)
    assert kind in {found for found, _ in killed.verdict().findings}, what


def test_a_turn_that_was_given_up_after_more_deaths_than_there_were_kills_is_a_fault(killed: Past) -> None:
    killed.ledger.kills = DEATHS - 1
    assert {kind for kind, _ in killed.verdict().findings} == {"broken"}


_CHARGED = [
    {"role": "assistant", "at_ms": 0, "origin": "agent", "parts": [
        {"type": "tool_call", "id": "call-s0-3", "name": "charge", "arguments": {"account": "s0-3"}}]},
    {"role": "tool", "at_ms": 0, "origin": "agent", "parts": [
        {"type": "tool_result", "call_id": "call-s0-3", "name": "charge", "text": "charged s0-3", "status": "ok"}]},
]  # fmt: skip


@pytest.mark.parametrize(
    ("times", "code", "is_fault"), [(2, "TURN_POISON", False), (3, "TURN_POISON", True), (2, "TURN_CRASHED", True)]
)
def test_what_had_joined_a_turn_that_was_given_up_may_be_done_once_more(
    killed: Past, times: int, code: str, is_fault: bool
) -> None:
    db = _opened(killed)
    [(turn, text)] = db.execute("SELECT turn, messages FROM history WHERE messages LIKE '%note s0 1%'").fetchall()
    first, *rest = json.loads(str(text))
    own = [{**first, "parts": [{"type": "text", "text": "charge s0 3"}]}, *_CHARGED]
    db.execute("UPDATE history SET messages = ? WHERE turn = ?", (json.dumps([first, *_CHARGED, *rest]), turn))
    db.execute(
        f"INSERT INTO history ({_TURN}) SELECT agent_id, session, user, origin, 'done', ended_at, ? FROM history"
        " WHERE turn = ?",
        (json.dumps(own), turn),
    )
    db.execute("UPDATE dead_letters SET code = ?", (code,))
    db.close()
    killed.tools["charge s0-3"] = times
    assert ("repeated_tools" in {kind for kind, _ in killed.verdict().findings}) is is_fault


def test_messages_of_a_turn_that_was_split_count_as_taken_when_each_is_by_itself(past: Past) -> None:
    """The first of them is set aside after that, and so ends after the second."""
    turn = "agent_id, session, user, origin, trace, attempt, seqs, started_at"
    end = "agent_id, session, user, origin, state, ended_at, messages"
    first, both = "(SELECT min(turn) FROM history WHERE state = 'done')", "(SELECT json_group_array(seq) FROM inbox)"
    _damage(
        past,
        f"INSERT INTO turns (turn, {turn}) SELECT 1000, {turn} FROM turns WHERE turn = {first};"
        f"INSERT INTO history (turn, {end}) SELECT 1000, {end} FROM history WHERE turn = {first};"
        f"UPDATE history SET state = 'continued' WHERE turn = {first};"
        f"INSERT INTO turns (turn, {turn}) SELECT -1, {turn.replace('seqs', both)} FROM turns WHERE turn = 1000;"
        f"INSERT INTO history (turn, {end}) SELECT -1, {end.replace('state', chr(39) + 'split' + chr(39))} FROM history"
        " WHERE turn = 1000;"
        "UPDATE history SET messages = '[]' WHERE turn = -1",
    )
    assert past.verdict().findings == []


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("broken", "UPDATE dead_letters SET code = 'TURN_CRASHED'"),
        ("lost", "UPDATE cron_runs SET state = 'ran'"),
        ("doubled", "INSERT INTO history SELECT turn + 1000, agent_id, session, user, origin, state, ended_at, error,"
         " messages, hint FROM history WHERE messages LIKE '%tick o1%'"),
    ],
)  # fmt: skip
def test_the_judge_sees_scheduled_runs_that_failed_for_another_reason(killed: Past, kind: str, damage: str) -> None:
    _damage(killed, damage)
    assert kind in {found for found, _ in _scheduled(killed)}


@pytest.mark.parametrize(
    ("line", "times", "kind"), [("charge s0-3", 2, "repeated_tools"), ("charge s0-6", 0, "lost"), ("note s0-2", 2, "")]
)
def test_the_judge_sees_what_tools_did(past: Past, line: str, times: int, kind: str) -> None:
    past.tools[line] = times
    assert {found for found, _ in past.verdict().findings} == ({kind} if kind else set())


def test_the_ledger_sees_a_repeat_that_is_accepted_again_and_a_reply_that_comes_back() -> None:
    ledger = Ledger()
    sent = Sent(Errand("m", "s0", 1), DIRECT, "key")
    ledger.acknowledge(sent, 5, duplicate=True, result=None)  # the first receipt may have been lost on its way
    ledger.acknowledge(sent, 5, duplicate=True, result="ack m s0 1")
    ledger.fetch(3, "ack m s0 1")
    ledger.fetch(3, "ack m s0 1")
    assert ledger.findings == []
    ledger.acknowledge(sent, 6, duplicate=False, result=None)
    ledger.confirm(3, "ack m s0 1")
    ledger.fetch(3, "ack m s0 1")
    assert [kind for kind, _ in ledger.findings] == ["doubled", "doubled"]


def test_calls_are_counted_per_thread_and_others_files_are_no_targets() -> None:
    record = """\
        7  openat(AT_FDCWD, "/usr/lib/python", O_RDONLY) = 3
        7  openat(AT_FDCWD, "/tmp/h/daycare.db", O_RDWR) = 4
        8  fdatasync(4) = 0
        9  fdatasync(4 <unfinished ...>
        9  <... fdatasync resumed>) = 0
        9  fdatasync(4) = 0
        7  +++ exited with 0 +++"""
    lines = [line.strip() for line in record.splitlines()]
    assert targets_of(lines, "/tmp/h") == {"openat": [2], "fdatasync": [1, 2]}
