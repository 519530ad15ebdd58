"""Who follows the facts of the core in its transactions, and in which order."""

from daycare.store.sqlite.cron_jobs import JobsOfUsers
from daycare.store.sqlite.cron_ledger import OpenRuns
from daycare.store.sqlite.facts import Followers
from daycare.store.sqlite.signal_rows import Listeners
from daycare.store.sqlite.task_ledger import OpenTasks


def followers() -> Followers:
    """Return those of one store. A scheduled run may be a task, and asks how that came to its end: so it is behind."""
    return Followers([Listeners(), OpenTasks(), OpenRuns(), JobsOfUsers()])
