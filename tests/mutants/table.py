"""The faults that are planted, and the smallest slice of a campaign, or the test, that must see each."""

from dataclasses import dataclass, field
from typing import Final

from tests.mutants.plant import After, Before, Body, Edit, Fault, Instead, Reword, Swap

STORE: Final = "daycare.store.sqlite"
# Whatever follows is in a commit of its own.
APART: Final = 'tx.db.execute("COMMIT")\ntx.db.execute("BEGIN IMMEDIATE")'

# Whoever posts a message is told that it is there, so many seconds before it is committed.
_EARLY: Final = """\
def early():
    for write in todo:
        if "Inbox.post" in write.fn.__qualname__ and write.task is not None:
            task, write.task = write.task, None
            trio.lowlevel.reschedule(task, write)
trio.from_thread.run_sync(early)
time.sleep({})"""


@dataclass(frozen=True)
class Slice:
    """A command that passes, and fails with the mutant; `short` is as much of it as shows that it passes."""

    campaign: str
    command: tuple[str, ...]
    short: tuple[str, ...] = ()


def between(operation: str, near: str) -> Slice:
    """Deaths at the commits of an operation with such a statement, up to the first finding."""
    command = ("tests.crash", "--between", "--operation", operation, "--near", near, "--first")
    return Slice("between", command, ("--points", "2"))


def simulation(seed: int, days: str = "0.45", *more: str) -> Slice:
    """Days of a whole house."""
    return Slice("simulation", ("tests.simulation", "--seed", str(seed), "--days", days, *more))


def test(*names: str) -> Slice:
    """Tests of the suite."""
    return Slice("tests", ("pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *(f"tests/{name}" for name in names)))


FOLLOWERS: Final = "[follower() for each in rows for follower in each.followers]"
HEEDS: Final = "{MessageEnded: self._ended, TurnAnswered: _answered, ReplyMoved: _moved, TaskTold: _told}"
LEDGER: Final = "daycare.features.cron.ledger"
POWERCUT: Final = Slice("powercut", ("tests.crash", "--mode", "powercut", "--images", "100", "--seed", "1"))
THREADS: Final = simulation(1, "0.45", "--threads")
WAKES: Final = Slice("wakes", ("tests.simulation.wakes", "--count", "1000", "--seed", "20270101"))
CRON: Final = Slice("cron", ("tests.cron", "--days", "3", "--seed", "1"))
KILLS: Final = Slice("kill", ("tests.crash", "--kills", "6", "--seed", "2"))
APPROVALS: Final = Slice(
    "approvals",
    ("tests.crash", "--workload", "approvals", "--kills", "30", "--seed", "2"),
    ("--kills", "2"),
)


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is planted, what it does, and what must see it."""

    name: str
    what: str
    where: str
    edits: tuple[Edit, ...]
    seen_by: Slice
    sees: str = ""  # a regular expression for what the slice says of it
    faults: tuple[Fault, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "faults", (Fault(self.where, self.edits),))


def _in(module: str, function: str) -> str:
    return f"{STORE}.{module}:{function}"


MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- one thing in two commits ------------------------------------------------------------------------------------
    Mutant(
        "timer-before-post",
        "a timer is deleted in a commit before its message is posted",
        _in("timers", "_fire"),
        (Before("envelope = read_envelope", f'tx.run("DELETE FROM timers WHERE no = ?", (no,))\n{APART}'),),
        between("reminder", "FROM timers WHERE no"),
        "lost",
    ),
    Mutant(
        "cron-before-ledger",
        "a job is moved on in a commit before its run is in the ledger and posted",
        f"{LEDGER}:fire",
        (After("UPDATE cron_jobs SET next_at", APART),),
        between("cron", "UPDATE cron_jobs SET next_at"),
        "lost",
    ),
    Mutant(
        "run-before-post",
        "a run is in the ledger in a commit before its message",
        f"{LEDGER}:fire",
        (Before("post(tx, no, job, run.post)", APART),),
        between("cron", "INSERT INTO cron_runs"),
        "lost",
    ),
    Mutant(
        "turn-end-before-inbox",
        "a turn ends in a commit before its messages are done",
        _in("turns", "_finish"),
        (After("_must_end(tx, turn, end.state", APART),),
        between("message", "INSERT INTO history"),
        "doubled",
    ),
    Mutant(
        "inbox-before-reply",
        "messages are done in a commit before their reply is queued",
        _in("turns", "_finish"),
        (After("mailbox.complete(", APART),),
        between("message", "INSERT INTO history"),
        "lost",
    ),
    Mutant(
        "reply-before-turn",
        "a reply goes out before the commit of its turn",
        _in("turns", "_finish"),
        (
            Before(
                "_must_end(tx, turn, end.state",
                f"_send(tx, agent, turn, end.replies, Effects())\n{APART}\n"
                "end = msgspec.structs.replace(end, replies=())",
            ),
        ),
        between("message", "INSERT INTO history"),
        "doubled",
    ),
    Mutant(
        "command-before-reply",
        "a command is done in a commit before its reply",
        _in("inbox", "Inbox.conclude.run"),
        (Before("outbox.insert(", APART),),
        between("receiving", "INSERT INTO outbox"),
        "lost",
    ),
    Mutant(
        "cursor-before-batch",
        "a platform's cursor is committed before the messages up to it",
        _in("intake", "IntakeStore.take.run"),
        (Before("taken = ", f"if cursor:\n    _remember(tx, connector, _CURSOR, cursor)\n{APART}"),),
        between("receiving", "connector_memory"),
    ),
    Mutant(
        "task-before-row",
        "a task's agent and message are committed before the task",
        "daycare.features.tasks.rows:start",
        (Before("values: dict", APART),),
        between("task", "INSERT INTO tasks"),
    ),
    Mutant(
        "aside-before-held",
        "a turn waits for answers in a commit before its messages are held",
        _in("waits", "set_aside"),
        (Before("_change(tx", APART),),
        between("delegation", "INSERT INTO waits"),
    ),
    Mutant(
        "goes-on-before-journal",
        "a turn that goes on gives its messages back in a commit before it takes its journal over",
        _in("waits", "go_on"),
        (After("_change(tx", APART),),
        between("delegation", "UPDATE waits SET turn"),
    ),
    Mutant(
        "approval-before-decided",
        "an approved change is written in a commit before the decision",
        "daycare.features.approvals.rows_deciding:decide",
        (After("version = _do(", APART),),
        between("approval", "INSERT INTO documents "),
    ),
    Mutant(
        "mark-before-learned",
        "what memory has looked at is marked in a commit before what was learned of it",
        "daycare.features.memory.store.extraction:_learn",
        (After("UPDATE memory_marks", APART),),
        between("memory", "UPDATE memory_marks"),
        "lost",
    ),
    # -- what a death must not change --------------------------------------------------------------------------------
    Mutant(
        "try-not-counted",
        "the start of a try does not count, so a message that kills the process is tried for ever",
        _in("turns", "TurnStore.resume.run"),
        (Instead("UPDATE turns SET attempt"),),
        between("poison", "INSERT INTO turns"),
        "broken",
    ),
    Mutant(
        "delivery-not-journaled",
        "a try to deliver is not journaled, so that the next is not marked as a possible duplicate",
        _in("outbox", "Outbox.start.run"),
        (Reword("SET state = 1, ", "SET "),),
        between("message", "UPDATE outbox SET"),
        "not marked",
    ),
    Mutant(
        "sent-before-acknowledged",
        "a reply leaves the outbox before the platform has acknowledged it",
        "daycare.flow:Delivery.deliver",
        (Before("receipt = await sending.send", 'await self.store.outbox.sent([row.seq], "")'),),
        between("message", "UPDATE outbox SET"),
        "lost",
    ),
    Mutant(
        "charged-twice",
        "a tool that may not be repeated runs again after a death",
        "daycare.agent.steps:Thinker._replay_started",
        (Swap("step.idempotent", "True"),),
        between("tools", "INSERT INTO steps"),
        "charge ran 2 times",
    ),
    Mutant(
        "start-not-journaled",
        "that a tool starts is not journaled before it runs",
        "daycare.agent.steps:Thinker._journal",
        (
            Instead(
                "await with_retry(lambda: self._store.turns.journal(steps, shown))",
                "await with_retry(lambda: self._store.turns.journal([s for s in steps if s.state == 'done'], shown))",
            ),
        ),
        between("tools", "INSERT INTO steps"),
    ),
    Mutant(
        "open-turn-forgotten",
        "after a start nobody looks for the turn that was open",
        _in("turns", "TurnStore.open_turn"),
        (Body("return None"),),
        between("message", "INSERT INTO turns"),
    ),
    Mutant(
        "backlog-sleeps",
        "what waits at a start wakes nobody",
        "daycare.actors.supervisor:Supervisor._wake_backlog",
        (Body("return"),),
        between("receiving", "INSERT INTO inbox"),
    ),
    # -- what a commit promises --------------------------------------------------------------------------------------
    Mutant(
        "ack-before-commit",
        "a message is acknowledged 10 ms before its COMMIT",
        _in("writer", "Writer._carry_out"),
        (Before("self._end()", _EARLY.format(0.01)),),
        POWERCUT,
        "lost",
    ),
    Mutant(
        "ack-without-sync",
        "the file is opened with synchronous = OFF",
        _in("database", "open_writer"),
        (Reword("synchronous = FULL", "synchronous = OFF"),),
        POWERCUT,
        "lost|torn",
    ),
    Mutant(
        "ack-half-sync",
        "the file is opened with synchronous = NORMAL, as many stores are",
        _in("database", "open_writer"),
        (Reword("synchronous = FULL", "synchronous = NORMAL"),),
        POWERCUT,
        "lost",
    ),
    Mutant(
        "spoiled-half-stays",
        "a write that fails halfway leaves its half in the commit of the others",
        _in("writer", "Writer._spoils"),
        (Instead("return self._db.total_changes() != before", "return False"),),
        POWERCUT,
        "refused",
    ),
    Mutant(
        "cancelled-unheard",
        "nobody hears of a commit whose senders are gone",
        _in("writer", "Writer._commit"),
        (Swap("committed is not None", "committed is not None and any(write.task for write in batch)"),),
        THREADS,
    ),
    Mutant(
        "memory-after-undo",
        "after an undone transaction the writer goes on with what it remembered of it",
        _in("writer", "Writer._restore"),
        (Instead("self.memory.load"),),
        test("store/test_sqlite_writer.py::test_what_the_writer_remembers_equals_the_table_after_random_operations"),
    ),
    # -- waking and order --------------------------------------------------------------------------------------------
    Mutant(
        "wake-lost",
        "an agent looks away between deciding to sleep and sleeping",
        "daycare.actors.supervisor:Supervisor._lived",
        (After("await self._work(lane)", "await trio.lowlevel.checkpoint()"),),
        WAKES,
    ),
    Mutant(
        "lane-never-wakes",
        "a lane that waits is not woken by what comes",
        "daycare.actors.lifecycle:Activation.nudge",
        (Body("return"),),
        WAKES,
    ),
    Mutant(
        "wake-never",
        "a commit wakes no agent that sleeps",
        "daycare.actors.supervisor:Supervisor.posted",
        (Instead("self.wake(row.agent_id)", "pass"),),
        simulation(1),
    ),
    Mutant(
        "newest-first",
        "an agent takes up its newest message first",
        "daycare.actors.lifecycle:Activation.claim",
        (Swap("self.rows.pop(0)", "self.rows.pop()"),),
        simulation(1),
    ),
    Mutant(
        "steered-twice",
        "what was steered into a turn gets a turn of its own, too",
        "daycare.actors.lifecycle:Activation.steering",
        (After("taken = self._mergeable", "self.rows[:0] = taken"),),
        test("actors/test_during_a_turn.py::test_steer_shows_a_message_to_the_running_turn"),
    ),
    Mutant(
        "replies-out-of-order",
        "a person's replies are delivered from the newest on",
        "daycare.connectors.courier:Courier._bring",
        (Swap("queue[0]", "queue[-1]"), Swap("queue.popleft()", "queue.pop()")),
        test("flow/test_courier.py::test_replies_to_one_person_arrive_in_order_though_one_has_to_wait"),
    ),
    # -- once --------------------------------------------------------------------------------------------------------
    Mutant(
        "keys-ignored",
        "nobody looks at idempotency keys",
        _in("mailbox", "insert"),
        (Swap("envelope.key", 'f"{envelope.key}#{tx.db.total_changes()}"'),),
        simulation(1),
    ),
    Mutant(
        "approval-twice",
        "a request that was decided can be decided again",
        "daycare.features.approvals.rows_deciding:_pending",
        (Instead("it.state is not ApprovalState.PENDING"),),
        test("store/test_approvals.py::test_only_the_first_decision_counts"),
    ),
    Mutant(
        "task-by-two",
        "a call that is repeated after a crash starts a second task",
        "daycare.features.tasks.rows:start",
        (Swap("known is not None", "False"),),
        between("task", "INSERT INTO tasks"),
    ),
    Mutant(
        "cron-twice",
        "a job runs twice for one time",
        f"{LEDGER}:fire",
        (
            After(
                "post(tx, no, job, run.post)",
                "again = _insert(tx, job, replace(run, due_at=run.due_at + 1))\n"
                "envelope = replace(run.post.envelope, key=run.post.envelope.key + '+')\n"
                "if again is not None:\n    post(tx, again, job, replace(run.post, envelope=envelope))",
            ),
        ),
        CRON,
    ),
    Mutant(
        "cron-missed",
        "what was missed while the machine slept is forgotten",
        "daycare.features.cron.service:plan",
        (Swap("_late(job, late, last, now_ms)", "[]"),),
        CRON,
    ),
    Mutant(
        "learned-without-mark",
        "what memory has learned is kept, and that it has looked is not",
        "daycare.features.memory.store.extraction:_learn",
        (Instead("UPDATE memory_marks"),),
        test("store/test_memories_log.py::test_what_is_logged_waits_for_the_worker_until_its_mark_has_passed"),
    ),
    Mutant(
        "timer-stays",
        "a timer that has fired stays",
        _in("timers", "_fire"),
        (Instead("DELETE FROM timers"),),
        test("store/test_delivery.py::test_timers_fire_once_and_in_order"),
    ),
    # -- to whom -----------------------------------------------------------------------------------------------------
    Mutant(
        "answer-to-another",
        "the answer of a helper is taken by whichever turn waits",
        _in("waits", "awaited_by"),
        (Reword("key = . AND agent_id = .", "(key = ? OR agent_id = ? OR 1)"),),
        simulation(1),
    ),
    Mutant(
        "answer-to-nobody",
        "the answer of a helper is sent to the helper",
        "daycare.base.messages:Envelope.answer",
        (Swap("asked.asker", "None"), Swap("self.sender", "self.to")),
        test("actors/test_delegation.py::test_a_helper_s_answer_is_the_result_of_the_call"),
    ),
    Mutant(
        "orphans-live",
        "the helpers of a dead agent live on",
        "daycare.agent.control:Control._dismiss_helpers",
        (Body("return"),),
        test("actors/test_delegation.py::test_stop_ends_a_turn_that_waits_and_its_helpers"),
    ),
    Mutant(
        "rights-when-shown",
        "permissions are looked at when tools are offered, and not when one is used",
        "daycare.actors.permission_checks:PermissionChecks.tool",
        (Body('return ""'),),
        test("actors/test_household.py::test_a_refusal_names_the_rule_to_the_model"),
    ),
    Mutant(
        "dead-without-reason",
        "a dead letter has no reason",
        _in("letters", "insert"),
        (Swap("without_secrets(values[8])", "''"),),
        test("store/test_turns.py::test_parking_makes_dead_letters_of_the_messages_and_tells_their_senders"),
    ),
    # -- money and bounds --------------------------------------------------------------------------------------------
    Mutant(
        "charged-after-loss",
        "an answer is charged only if nothing went wrong behind it",
        "daycare.inference.metering:Meter.__aexit__",
        (Swap("self.bill is not None", "self.bill is not None and error is None"),),
        test("budgets/test_answered.py::test_an_answer_that_was_whole_is_charged_as_counted_though_its_call_failed"),
    ),
    Mutant(
        "ceiling-ignored",
        "a call is made although it may go over a ceiling",
        "daycare.features.budgets.rows_charging:reserve",
        (Swap("any(standing.reached for standing in standings)", "False"),),
        test("store/test_budgets.py::test_no_reservation_goes_over_a_ceiling_however_many_ask_at_once"),
    ),
    Mutant(
        "inbox-without-bound",
        "an inbox takes any number of messages",
        _in("inbox", "post"),
        (Swap("tx.memory.waiting.get(agent_id, 0) >= room", "False"),),
        test("store/test_inbox.py::test_a_full_inbox_refuses_before_commit_and_lets_the_control_lane_pass"),
    ),
    # -- copies and removal ------------------------------------------------------------------------------------------
    Mutant(
        "purge-leaves-rows",
        "what was said with a purged person stays",
        _in("purging", "_purge"),
        (Swap("tables.plain()", "(table for table in tables.plain() if table != 'history')"),),
        test("backup/test_purge.py::test_a_purged_person_is_in_no_byte_of_the_home"),
    ),
    Mutant(
        "first-round-believes",
        "the first cleanup of a home takes the newest row for the time",
        "daycare.features.upkeep.horizon:Horizon.__init__",
        (Swap("0 if newest_ms else self._newest_ms", "self._newest_ms"),),
        test(
            "behaviours/test_clock_set.py::test_the_first_round_of_a_home_makes_nothing_old_though_the_clock_is_ahead"
        ),
    ),
    Mutant(
        "answer-left-behind",
        "a turn that is ended leaves an answer to it in the mailbox",
        _in("waits", "unread"),
        (Body("return []"),),
        test(
            "actors/test_delegation_more.py::"
            "test_an_answer_in_the_mailbox_of_a_turn_that_still_runs_is_in_its_history_when_it_is_ended"
        ),
    ),
    Mutant(
        "purge-leaves-summaries",
        "what a conversation with a purged person was summed up to stays",
        _in("purging", "_purge"),
        (Swap("tables.plain()", "(table for table in tables.plain() if table != 'summaries')"),),
        test("backup/test_purge.py::test_of_each_table_that_can_be_somebodys_a_purge_leaves_no_row"),
    ),
    Mutant(
        "replay-of-what-lives",
        "a replay queues a reply again that is not dead",
        _in("outbox", "revive"),
        (Reword(r"state IN \(3, 4\)", "state >= 0"),),
        test("store/test_delivery.py::test_a_replay_touches_only_what_is_dead"),
    ),
    Mutant(
        "export-forgets-jobs",
        "an export leaves scheduled jobs out, and does not say so",
        "daycare.features.exports.rows:Subtree.records",
        (Swap("self._jobs", "self._marks"),),
        test("exports/test_round_trip.py::test_an_import_elsewhere_and_an_export_of_it_give_the_same_content"),
    ),
    Mutant(
        "torn-backup",
        "a backup is not read back before it gets its name",
        "daycare.features.backups.archive:BackupArchive.verify",
        (Body("return self.manifest"),),
        test("backup/test_making.py::test_what_does_not_read_back_never_gets_its_name"),
    ),
    # -- who is told in the transaction --------------------------------------------------------------------------------
    Mutant(
        "runs-before-tasks",
        "a scheduled run asks how its task ended before the task was told",
        _in("rows", "followers_of"),
        (Swap(FOLLOWERS, "[follower() for each in reversed(rows) for follower in each.followers]"),),
        test("cron/test_tasks.py::test_a_task_that_is_cancelled_or_expires_is_no_failure_to_try_again"),
    ),
    Mutant(
        "runs-not-told",
        "a scheduled run is not told that its message is done",
        f"{LEDGER}:OpenRuns.heeds",
        (Swap(HEEDS, HEEDS.replace("MessageEnded: self._ended, ", "")),),
        test("cron/test_schedule.py::test_a_job_runs_when_it_is_due_and_its_answer_reaches_the_last_conversation"),
    ),
    Mutant(
        "listeners-not-told",
        "nobody who listens to an agent hears that it is idle",
        _in("rows", "followers_of"),
        (Swap(FOLLOWERS, FOLLOWERS.replace("]", " if follower.__name__ != 'Listeners']")),),
        test("signals/test_lives.py::test_an_agent_is_idle_after_a_minute_and_wakes_with_the_next_message"),
    ),
    Mutant(
        "jobs-outlive-their-user",
        "the jobs of a user who was removed stay",
        _in("rows", "followers_of"),
        (Swap(FOLLOWERS, FOLLOWERS.replace("]", " if follower.__name__ != 'JobsOfUsers']")),),
        test("store/test_removal.py::test_all_of_a_user_and_below_ends_and_nothing_of_others_does"),
    ),
    Mutant(
        "requests-outlive-their-user",
        "requests of a user who was removed still wait for a decision",
        "daycare.features.approvals.rows_followers:_left",
        (Body("pass"),),
        test("store/test_removal.py::test_all_of_a_user_and_below_ends_and_nothing_of_others_does"),
    ),
    Mutant(
        "requests-not-forgotten",
        "what a forgotten turn had asked for can still be read",
        "daycare.features.approvals.rows_followers:_forget_traces",
        (Body("pass"),),
        test("store/test_memories_forgetting.py::test_a_request_for_approval_of_a_forgotten_turn_cannot_be_decided"),
    ),
    # -- several machines ----------------------------------------------------------------------------------------------
    Mutant(
        "history-unseen",
        "a node goes on with commits that a server has lost once others have used their numbers again",
        "daycare.store.postgres.members:NodeMembership.reopen",
        (Swap("(number, began)", "(number,)"),),
        test(
            "nodes/test_failover.py::test_a_node_sees_that_commits_it_heard_of_are_gone_though_others_have_used_their_numbers_again"
        ),
    ),
    # -- by a real kill ----------------------------------------------------------------------------------------------
    Mutant(
        "ack-long-before-commit",
        "a message is acknowledged 100 ms before its COMMIT, and nobody cuts the power",
        _in("writer", "Writer._carry_out"),
        (Before("self._end()", _EARLY.format(0.1)),),
        KILLS,
        "lost",
    ),
    Mutant(
        "begun-not-journaled",
        "that a call begins which may not be repeated is not journaled, so that it is made again after a death",
        "daycare.agent.steps:Thinker._begin",
        (Body("pass"),),
        APPROVALS,
        "repeated_tools",
    ),
    Mutant(
        "who-approved-not-told",
        "who said yes to a call of an agent they do not talk with hears nothing of it",
        "daycare.agent.kinds:is_for_person",
        (Body("return False"),),
        APPROVALS,
        "untold",
    ),
)
