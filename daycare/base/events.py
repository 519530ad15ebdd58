"""Typed events: what happened, for logs, `tail` and streams. Observers are never in a message's path.

Every event has a heading in doc/extend/events.md; `name` is stable.
"""

from daycare.base.event import Event as Event
from daycare.base.events_changes import AgentChanged as AgentChanged
from daycare.base.events_changes import AgentCreated as AgentCreated
from daycare.base.events_changes import AgentDied as AgentDied
from daycare.base.events_changes import AgentParked as AgentParked
from daycare.base.events_changes import AgentRestored as AgentRestored
from daycare.base.events_changes import AgentUnparked as AgentUnparked
from daycare.base.events_changes import DocumentChanged as DocumentChanged
from daycare.base.events_changes import KeyRemoved as KeyRemoved
from daycare.base.events_changes import KeysResealed as KeysResealed
from daycare.base.events_changes import KeyStored as KeyStored
from daycare.base.events_changes import TokenMade as TokenMade
from daycare.base.events_changes import TokenRevoked as TokenRevoked
from daycare.base.events_changes import UserAdded as UserAdded
from daycare.base.events_changes import UserChanged as UserChanged
from daycare.base.events_changes import UserPaired as UserPaired
from daycare.base.events_changes import UserRemoved as UserRemoved
from daycare.base.events_memory import EmbedderAway as EmbedderAway
from daycare.base.events_memory import IdentityHeld as IdentityHeld
from daycare.base.events_memory import MemoryAway as MemoryAway
from daycare.base.events_memory import MemoryForgotten as MemoryForgotten
from daycare.base.events_memory import MemoryLearned as MemoryLearned
from daycare.base.events_memory import MemoryRecalled as MemoryRecalled
from daycare.base.events_trouble import DiskTrouble as DiskTrouble
from daycare.base.events_trouble import LaneBroke as LaneBroke
from daycare.base.events_trouble import PartCrashed as PartCrashed
from daycare.base.events_trouble import RowSetAside as RowSetAside
from daycare.base.events_work import BudgetChanged as BudgetChanged
from daycare.base.events_work import CommandRun as CommandRun
from daycare.base.events_work import ConfigRefused as ConfigRefused
from daycare.base.events_work import ConfigReloaded as ConfigReloaded
from daycare.base.events_work import CronBroken as CronBroken
from daycare.base.events_work import CronChanged as CronChanged
from daycare.base.events_work import CronDue as CronDue
from daycare.base.events_work import CronFailed as CronFailed
from daycare.base.events_work import CronMissed as CronMissed
from daycare.base.events_work import CronRan as CronRan
from daycare.base.events_work import DeadPruned as DeadPruned
from daycare.base.events_work import DeadReplayed as DeadReplayed
from daycare.base.events_work import FileChanged as FileChanged
from daycare.base.events_work import McpChanged as McpChanged
from daycare.base.events_work import SignalFired as SignalFired
from daycare.base.events_work import SignalSubscribed as SignalSubscribed
from daycare.base.events_work import SignalUnsubscribed as SignalUnsubscribed
from daycare.base.events_work import SkillChanged as SkillChanged
from daycare.base.events_work import TaskEnded as TaskEnded
from daycare.base.events_work import TaskProgressed as TaskProgressed
from daycare.base.events_work import TaskStarted as TaskStarted
from daycare.base.events_work import TimerCancelled as TimerCancelled
from daycare.base.events_work import TimerSet as TimerSet
from daycare.base.events_work import VoiceHeard as VoiceHeard
from daycare.base.events_work import VoiceUnheard as VoiceUnheard
from daycare.base.events_work import VoiceUnspoken as VoiceUnspoken
from daycare.base.events_work import WebhookAdded as WebhookAdded
from daycare.base.events_work import WebhookChanged as WebhookChanged
from daycare.base.events_work import WebhookRemoved as WebhookRemoved
from daycare.base.events_work import WebhookRotated as WebhookRotated


class MessageAccepted(Event, frozen=True, kw_only=True, tag="message.accepted"):
    """An inbox row was committed; `seq` is its number. `took_ms` is how long that took since it was received."""

    seq: int
    sender: str
    duplicate: bool = False
    took_ms: int = 0


class AgentWoke(Event, frozen=True, kw_only=True, tag="agent.woke"):
    """A sleeping agent became awake."""


class AgentSlept(Event, frozen=True, kw_only=True, tag="agent.slept"):
    """An awake agent without work went back to being a row."""


class TurnStarted(Event, frozen=True, kw_only=True, tag="turn.started"):
    """A turn began or was resumed; `attempt` counts from 1. `answers` are the connectors that its answer goes to.

    `seqs`, `traces` and `waits_ms` are those of its messages: how long each has waited since it was committed.
    """

    turn: int
    attempt: int
    messages: int
    answers: tuple[str, ...] | None = None
    seqs: tuple[int, ...] = ()
    traces: tuple[str, ...] = ()
    waits_ms: tuple[int, ...] = ()


class TurnDelta(Event, frozen=True, kw_only=True, tag="turn.delta"):
    """A piece of the reply as the model streams it; a preview, the reply is what `TurnFinished` carries."""

    turn: int
    text: str


class ToolStarted(Event, frozen=True, kw_only=True, tag="tool.started"):
    """A tool call was journaled and starts now."""

    turn: int
    step: int
    tool: str


class ToolProgress(Event, frozen=True, kw_only=True, tag="tool.progress"):
    """A running tool says how far it is."""

    turn: int
    step: int
    tool: str
    text: str


class ToolFinished(Event, frozen=True, kw_only=True, tag="tool.finished"):
    """A tool call ended: ok, error or uncertain."""

    turn: int
    step: int
    tool: str
    status: str


class TurnWaiting(Event, frozen=True, kw_only=True, tag="turn.waiting"):
    """A turn was set aside until other agents have answered; its agent is free meanwhile."""

    turn: int
    answers: int


class TurnFinished(Event, frozen=True, kw_only=True, tag="turn.finished"):
    """A turn was committed; `seqs` are the inbox rows it answered."""

    turn: int
    reply: str
    seqs: tuple[int, ...]
    stopped: bool = False


class TurnFailed(Event, frozen=True, kw_only=True, tag="turn.failed"):
    """A try of a turn failed; it is tried again after `retry_in_s`, or was parked when that is absent."""

    turn: int
    attempt: int
    code: str
    reason: str
    hint: str = ""
    retry_in_s: float | None = None


class ModelFailed(Event, frozen=True, kw_only=True, tag="model.failed"):
    """One try of a model call failed; text shown of it so far is void. `retry_in_s` None: no other try follows."""

    turn: int
    provider: str
    model: str
    code: str
    reason: str
    retry_in_s: float | None = None


class ModelCalled(Event, frozen=True, kw_only=True, tag="model.called"):
    """One call of a model has ended, for whatever it was made; `code` is why it failed, if it did.

    Tokens are the provider's count, or ours if it has none; cost is in millionths of a US dollar.
    """

    provider: str
    model: str
    took_ms: int
    code: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context.compacted"):
    """A summary now stands in an agent's prompts for `turns` more turns, up to the turn `through`."""

    turns: int
    through: int
    tokens_before: int
    tokens_after: int


class CompactionFailed(Event, frozen=True, kw_only=True, tag="context.compaction_failed"):
    """A summary could not be had or was no use; the conversation stays as it is."""

    code: str
    reason: str


class ContextTrimmed(Event, frozen=True, kw_only=True, tag="context.trimmed"):
    """A prompt was too long even so: its oldest turns or results of tools were left out. Nothing stored is lost."""

    turn: int
    through: int
    results: int
    tokens: int


class ProviderAway(Event, frozen=True, kw_only=True, tag="provider.away"):
    """A model provider does not answer; what needs it waits. `cleared` marks that it is back."""

    provider: str
    reason: str
    cleared: bool = False


class BudgetWarned(Event, frozen=True, kw_only=True, tag="budget.warned"):
    """What the path `budget` and all below it have used comes near to `limit`, in whole units; `name` is the limit's.

    `share` is in percent, `until_ms` when the budget begins anew. `path` is where it was noticed.
    """

    budget: str
    name: str
    used: int
    limit: int
    share: int
    until_ms: int


class BudgetExhausted(Event, frozen=True, kw_only=True, tag="budget.exhausted"):
    """A budget is used up: calls of models below `budget` are refused until `until_ms`, or until it is raised."""

    budget: str
    name: str
    used: int
    limit: int
    until_ms: int


class DeadLettered(Event, frozen=True, kw_only=True, tag="dead.lettered"):
    """A message or delivery was given up on; `daycare dead show NO` tells why."""

    no: int
    source: str
    code: str
    reason: str


class ReplySent(Event, frozen=True, kw_only=True, tag="reply.sent"):
    """A connector confirmed an outbox row, `waited_ms` after it was committed."""

    outbox: int
    connector: str
    waited_ms: int = 0


class DeliveryFailed(Event, frozen=True, kw_only=True, tag="reply.failed"):
    """A try to deliver an outbox row failed and will be repeated."""

    outbox: int
    connector: str
    reason: str


class ConnectorHealth(Event, frozen=True, kw_only=True, tag="connector.health"):
    """A connection to a platform changed its state; only `up` means that messages come in.

    With `alert` the operator is told in a chat, `hint` being what they can do.
    """

    connector: str
    state: str
    reason: str = ""
    hint: str = ""
    alert: bool = False


class PairingRequested(Event, frozen=True, kw_only=True, tag="stranger.knocked"):
    """Somebody whom nobody knows was shown a pairing code; `daycare pair list` shows who waits."""

    key: str
    name: str


class ApprovalRequested(Event, frozen=True, kw_only=True, tag="approval.requested"):
    """An agent asks for approval, or what it asks for has changed; `daycare approvals show NO` tells what."""

    no: int
    kind: str
    decider: str
    what: str
    revision: int
    flagged: bool = False


class ApprovalDecided(Event, frozen=True, kw_only=True, tag="approval.decided"):
    """A request for approval has ended, or what it did was undone. `by` is a connector key, empty if nobody did."""

    no: int
    kind: str
    state: str
    by: str = ""


class ApprovalUsed(Event, frozen=True, kw_only=True, tag="approval.used"):
    """The agent at `path` makes a call without asking, as a person has approved such in advance: `what`, by `grant`."""

    grant: int
    what: str


class PermissionRefused(Event, frozen=True, kw_only=True, tag="permission.refused"):
    """The agent at `path` was not permitted to do `action` to `object`; `reason` names the rule."""

    action: str
    object: str
    decision: str
    reason: str


class LoopStopped(Event, frozen=True, kw_only=True, tag="storm.stopped"):
    """A chain of messages between agents was stopped; `path` is where it began, `hops` how many turns it went through.

    The message from `sender` to `to`, which is empty for a helper's task, was not sent.
    """

    sender: str
    to: str
    hops: int
    reason: str


class PluginStarted(Event, frozen=True, kw_only=True, tag="plugin.started"):
    """A plugin runs again after it failed, or one of its hooks works again. `part` is `start` or the hook's name."""

    plugin: str
    part: str = "start"


class PluginFailed(Event, frozen=True, kw_only=True, tag="plugin.failed"):
    """A plugin was left out, crashed, or its hook failed. `retry_in_s` None: not tried again before the next start."""

    plugin: str
    part: str
    code: str
    reason: str
    retry_in_s: float | None = None


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    """Something a person should know; also given to `notify`."""

    text: str


AnyEvent = (
    MessageAccepted
    | AgentWoke
    | AgentSlept
    | AgentParked
    | AgentDied
    | AgentCreated
    | AgentChanged
    | AgentUnparked
    | AgentRestored
    | DocumentChanged
    | UserAdded
    | UserChanged
    | UserPaired
    | UserRemoved
    | KeyStored
    | KeyRemoved
    | KeysResealed
    | TokenMade
    | TokenRevoked
    | LaneBroke
    | PartCrashed
    | TurnStarted
    | TurnDelta
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | TurnWaiting
    | TurnFinished
    | TurnFailed
    | ModelFailed
    | ModelCalled
    | ContextCompacted
    | CompactionFailed
    | ContextTrimmed
    | ProviderAway
    | BudgetWarned
    | BudgetExhausted
    | BudgetChanged
    | MemoryLearned
    | MemoryRecalled
    | MemoryForgotten
    | RowSetAside
    | EmbedderAway
    | MemoryAway
    | IdentityHeld
    | DeadLettered
    | DeadReplayed
    | DeadPruned
    | ReplySent
    | DeliveryFailed
    | ConnectorHealth
    | PairingRequested
    | ApprovalRequested
    | ApprovalDecided
    | ApprovalUsed
    | PermissionRefused
    | LoopStopped
    | CronDue
    | CronRan
    | CronMissed
    | CronFailed
    | CronBroken
    | CronChanged
    | TimerSet
    | TimerCancelled
    | TaskStarted
    | TaskProgressed
    | TaskEnded
    | SignalFired
    | SignalSubscribed
    | SignalUnsubscribed
    | CommandRun
    | McpChanged
    | FileChanged
    | VoiceHeard
    | VoiceUnheard
    | VoiceUnspoken
    | SkillChanged
    | WebhookAdded
    | WebhookChanged
    | WebhookRotated
    | WebhookRemoved
    | ConfigReloaded
    | ConfigRefused
    | DiskTrouble
    | PluginStarted
    | PluginFailed
    | Notice
)
