"""What every store promises of tasks: begun whole, ended once with the message that is its work, told of once."""

from typing import Protocol

from daycare.base.messages import Envelope, Origins
from daycare.store.records import Delivery
from daycare.store.records_tasks import NewTask, Task


class TaskStore(Protocol):
    """Tasks.

    A task is `running` from its first turn on. Its end is written in the transaction that ends its message (a turn, a
    dead letter), wherever that happens: `expired` or `cancelled` if its agent was dismissed, by its deadline or by
    somebody, else `done` or `failed`.
    """

    async def start(self, new: NewTask) -> Task:
        """Make a task, its agent, its message and the timer of its deadline, together, once for each `key`.

        Raises `ConflictError` TASK_EXISTS for a name that is at work, `BusyError` TASKS_MAX at so many of its user.
        """
        ...

    async def by_key(self, key: str) -> Task | None:
        """Return the task that a call has made."""
        ...

    async def at(self, path: str) -> Task | None:
        """Return the newest task of a path."""
        ...

    async def get(self, no: int) -> Task | None:
        """Return a task."""
        ...

    async def find(
        self, *, user: str | None = None, is_open: bool = False, before: int | None = None, limit: int = 100
    ) -> list[Task]:
        """Return tasks, newest first, beginning below number `before`; `is_open`: only those that have not ended."""
        ...

    async def progress(self, agent_id: str, text: str, key: str, origins: Origins) -> Task | None:
        """Note how far an agent is with its task, once for each `key`; None if it has none that has not ended."""
        ...

    async def unsettled(self, limit: int) -> list[Task]:
        """Return tasks that have ended and are not settled, oldest first."""
        ...

    async def settle(self, no: int, dismissal: Envelope, told: Delivery | None, note: Envelope | None) -> bool:
        """Let whoever asked know how a task ended, and its agent go, together; once: False if that was done before."""
        ...

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete a bounded number of tasks that ended before `before_ms`."""
        ...
