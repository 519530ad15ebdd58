"""Whoever stores a wall time says what reads it, and so what a clock that is ahead or behind does to it.

The cases where something waits are claimed one by one in `tests/flow/test_clock_set.py` and, for what deletes, in
`tests/behaviours/test_clock_set.py`.
"""

import re
from typing import Final

import apsw

from daycare.store.sqlite.database import migrate

TOLD: Final = "shown, sorted by, or exported: compared with no clock"
AGE: Final = "deleted by age: by `features/upkeep/horizon.py`, which no clock that was set makes later"
CALENDAR: Final = "a time of the calendar that somebody wished or said: it stays, and a clock that is set decides"
BOUNDED: Final = "waited for at most as long as such a wait may take, from when it is read"
VOID: Final = "a right or a limit of the moment: one from a time that is still to come is void"

TIMES: Final = {
    TOLD: """api_tokens.created_at api_tokens.used_at
        approval_grants.created_at approval_messages.created_at approvals.created_at
        file_changes.created_at file_changes.undone_at skill_approvals.created_at
        behaviour_states.at budgets.updated_at call_grants.created_at connector_memory.at
        cron_jobs.created_at cron_jobs.removed_at cron_jobs.updated_at
        cron_runs.started_at cron_runs.until_at dead_letters.replayed_at documents.created_at
        dropped_letters.first_at forgetting.at_ms forgotten_turns.at_ms memories.at_ms secrets.created_at
        sessions.ended_at sessions.started_at signal_subscriptions.created_at
        signals.created_at steps.at strangers.first_at strangers.last_at summaries.created_at tasks.created_at
        webhooks.accepted_at webhooks.created_at webhooks.refused_at
        tasks.started_at user_connector_keys.created_at users.created_at users.removed_at budget_sums.wall_ms
        budget_sums.reserved_ms model_sums.wall_ms reservations.wall_ms spending.unsettled_ms spending.wall_ms""",
    AGE: """agents.ended_at api_tokens.revoked_at prompt_layouts.created_at
        approvals.decided_at cron_runs.ended_at dead_letters.created_at dropped_letters.last_at
        events.at files.created_at history.ended_at inbox.done_at memories.created_at
        memory_marks.oldest_at openai_exchanges.created_at outbox.created_at
        outbox.sent_at signals.ended_at spend.at tasks.ended_at""",
    CALENDAR: """api_tokens.expires_at cron_jobs.next_at webhooks.older_until
        cron_runs.created_at cron_runs.due_at cron_runs.post_at memories.until_ms
        reservations.day""",
    BOUNDED: """approvals.expires_at heartbeats.beat_at heartbeats.since inbox.created_at outbox.retry_at
        reservations.at signals.due_at tasks.deadline_at timers.created_at timers.due_at turns.retry_at
        turns.started_at""",
    VOID: "agents.created_at approval_grants.until strangers.code_until strangers.noticed_at",
}
_TIME: Final = re.compile(r"(^|_)(at|ms|until|since|day)$")


def test_each_stored_wall_time_says_what_a_wrong_clock_does_to_it() -> None:
    db = apsw.Connection(":memory:")
    migrate(db, ":memory:")
    columns = db.execute(
        "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    )
    stored = sorted(f"{table}.{column}" for table, column in columns if _TIME.search(str(column)))
    named = sorted(name for names in TIMES.values() for name in names.split())
    assert named == stored, "say in TIMES what reads it"
