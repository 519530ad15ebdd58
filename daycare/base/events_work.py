"""What happens to scheduled jobs and tasks, as events; see `events`."""

from daycare.base.event import Event


class CronDue(Event, frozen=True, kw_only=True, tag="cron.due"):
    """A scheduled job was due at `due_at` and is in the inbox; `run` is its number in the ledger, `attempt` from 1."""

    run: int
    due_at: int
    attempt: int


class CronRan(Event, frozen=True, kw_only=True, tag="cron.ran"):
    """A scheduled run has ended: in time (`ran`) or `late`."""

    run: int
    due_at: int
    state: str
    turn: int
    took_ms: int


class CronMissed(Event, frozen=True, kw_only=True, tag="cron.missed"):
    """A scheduled job did not run at `due_at`, or at `count` times since: `missed` by its policy, or `skipped`."""

    run: int
    due_at: int
    state: str
    reason: str
    count: int = 1


class CronFailed(Event, frozen=True, kw_only=True, tag="cron.failed"):
    """A scheduled run failed; it is tried again at `again_at`, or not at all when that is absent."""

    run: int
    due_at: int
    reason: str
    again_at: int = 0


class CronBroken(Event, frozen=True, kw_only=True, tag="cron.broken"):
    """A job cannot be kept as it stands in `source`; what was kept of it before stays."""

    source: str
    reason: str
    line: int = 1


class CronChanged(Event, frozen=True, kw_only=True, tag="cron.changed"):
    """Somebody has `added`, `changed`, `paused`, `resumed` or `removed` a scheduled job, which is at `path`."""

    change: str


class TaskStarted(Event, frozen=True, kw_only=True, tag="task.started"):
    """A task waits for its agent, until `deadline_at`. `asker` is the agent that asked, "" for people and jobs."""

    task: int
    deadline_at: int
    asker: str = ""


class TaskProgressed(Event, frozen=True, kw_only=True, tag="task.progress"):
    """An agent told how far it is with its task."""

    task: int
    text: str


class TaskEnded(Event, frozen=True, kw_only=True, tag="task.ended"):
    """A task is `done`, `failed`, `cancelled` or `expired`, so many milliseconds after it was asked for."""

    task: int
    state: str
    took_ms: int
    reason: str = ""


class ConfigReloaded(Event, frozen=True, kw_only=True, tag="config.reloaded"):
    """Config.toml was taken anew: keys `changed`, plugins `restarted`; `pending` keys count after a restart only."""

    changed: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


class ConfigRefused(Event, frozen=True, kw_only=True, tag="config.refused"):
    """Config.toml was changed and has a mistake, which `reason` names by line and key: what held before goes on."""

    code: str
    reason: str


class SignalSubscribed(Event, frozen=True, kw_only=True, tag="signal.subscribed"):
    """The agent at `path` gets signals that fit `pattern` from now on; `silent`: as notes, without a turn."""

    pattern: str
    silent: bool = False


class SignalUnsubscribed(Event, frozen=True, kw_only=True, tag="signal.unsubscribed"):
    """The agent at `path` gets signals that fit `pattern` no more."""

    pattern: str


class TimerSet(Event, frozen=True, kw_only=True, tag="timer.set"):
    """A message to the agent at `path` waits for its time, such as a reminder; `timer` is its number."""

    timer: int
    due_at: int


class TimerCancelled(Event, frozen=True, kw_only=True, tag="timer.cancelled"):
    """Somebody has cancelled a reminder of the agent at `path`; `timer` was its number."""

    timer: int


class DeadReplayed(Event, frozen=True, kw_only=True, tag="dead.replayed"):
    """A dead letter was queued again."""

    no: int


class DeadPruned(Event, frozen=True, kw_only=True, tag="dead.pruned"):
    """So many dead letters were deleted."""

    letters: int


class BudgetChanged(Event, frozen=True, kw_only=True, tag="budget.changed"):
    """What `budget` and all below it may use was set, raised or removed; it is a path such as `/ann`."""

    budget: str


class FileChanged(Event, frozen=True, kw_only=True, tag="file.changed"):
    """The agent at `path` has changed a file of its workspace, or that was `undone`. What it says is not told."""

    file: str
    change: int
    bytes: int
    undone: bool = False


class CommandRun(Event, frozen=True, kw_only=True, tag="command.run"):
    """The agent at `path` ran a command in its sandbox. `code` is how it ended, None if it was `stopped`, and why."""

    code: int | None = None
    stopped: str = ""
    ms: int = 0


class SkillChanged(Event, frozen=True, kw_only=True, tag="skill.changed"):
    """A skill was `added`, `approved` with all its files (of this `hash`), `revoked` or `removed`, by somebody.

    `path` is the agent whose it is, empty for one of the home.
    """

    skill: str
    change: str
    hash: str = ""
    by: str = ""


class McpChanged(Event, frozen=True, kw_only=True, tag="mcp.changed"):
    """An MCP server is `starting`, `up`, `asleep`, `failed` or `left_alone`; or so many of its `tools` were `found` new
    or changed, `approved` by a person, or `revoked`."""

    server: str
    change: str
    tools: int = 0


class WebhookAdded(Event, frozen=True, kw_only=True, tag="webhook.added"):
    """A webhook was made. `path` is the agent that it goes to, `signal` the signal that it sends."""

    webhook: str
    signal: str = ""


class WebhookChanged(Event, frozen=True, kw_only=True, tag="webhook.changed"):
    """A webhook was changed, but for its secret. It goes to the agent at `path`, or sends `signal`."""

    webhook: str
    signal: str = ""


class WebhookRotated(Event, frozen=True, kw_only=True, tag="webhook.rotated"):
    """A webhook has another secret; the earlier one opens it until `older_until`, 0 for not any more."""

    webhook: str
    older_until: int = 0


class WebhookRemoved(Event, frozen=True, kw_only=True, tag="webhook.removed"):
    """A webhook was removed, or its user was."""

    webhook: str


class SignalFired(Event, frozen=True, kw_only=True, tag="signal.fired"):
    """A signal went out: to so many agents, and `refused` did not get it. `path` is the agent it comes from."""

    signal: int
    type: str
    sent: int
    refused: int = 0


class VoiceHeard(Event, frozen=True, kw_only=True, tag="voice.heard"):
    """The voice note of the message `seq` was heard `by` somebody, in a `language` where they say so."""

    seq: int
    by: str
    language: str
    took_ms: int


class VoiceUnheard(Event, frozen=True, kw_only=True, tag="voice.unheard"):
    """The voice note of the message `seq` could not be heard."""

    seq: int
    code: str
    reason: str


class VoiceUnspoken(Event, frozen=True, kw_only=True, tag="voice.unspoken"):
    """The answer of a turn was to be spoken, and went out as text."""

    turn: int
    code: str
    reason: str
