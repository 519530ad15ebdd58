"""What a store takes and hands out: immutable structs, never rows. Times are wall-clock milliseconds, UTC."""

from enum import StrEnum
from typing import Any, Literal, TypeVar

import msgspec

from daycare.base.consent import Consent
from daycare.base.event import Event
from daycare.base.messages import Choice, Envelope, File, Message, Origin, Usage
from daycare.base.permission import Permissions
from daycare.base.voice_settings import VoiceMode
from daycare.base.workspace import Access
from daycare.store.records_conversations import TurnResult, TurnStart
from daycare.store.records_prompts import ShownPrompt

T = TypeVar("T")


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person or a group. `zone` is an IANA time zone; `keys` are its connector keys, `telegram:42`."""

    id: str
    name: str
    zone: str = "UTC"
    kind: Literal["person", "group"] = "person"
    operator: bool = False
    parent: str | None = None
    keys: tuple[str, ...] = ()


class Policy(StrEnum):
    """What a message does that arrives while its agent is in a turn."""

    STEER = "steer"  # the model sees it after the running step
    FOLLOWUP = "followup"  # it waits for the next turn
    COLLECT = "collect"  # it waits for a quiet moment and is merged with its neighbours
    INTERRUPT = "interrupt"  # it ends the running turn


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An agent's metadata, kept as JSON. Empty means: the installation's default."""

    name: str = ""
    description: str = ""
    system_prompt: str = ""
    personality: str = ""
    answers: str = ""  # in a conversation: the name of the permanent agent that answers there
    model: str = ""
    policy: Policy | None = None
    approvals: Consent | None = None  # when changes of its memory are asked for, as its person has chosen
    tools: tuple[str, ...] | None = None
    behaviour: str = ""  # PLUGIN/NAME of what an app does, set when it is made
    permissions: Permissions = Permissions()
    heartbeat_s: int = 0  # how often its heart beats; 0: never
    workspace: str = ""  # the folder whose files it works with: a name below `workspaces` in the home, or a path
    access: Access | None = None  # what it may do there; None: limited
    voice: VoiceMode | None = None  # when its answers are spoken
    echo: Literal["on", "off"] | None = None  # whether people are told which words were heard in their voice notes


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation of a path. `session` is the number of its current session."""

    id: str
    path: str
    kind: str
    role: str | None
    user: str
    origin: Origin
    parent: str | None
    state: Literal["living", "parked", "dead"]
    config: AgentConfig
    incarnation: int
    session: int
    created_at: int
    reason: str | None = None


class NewAgent(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to create an agent; kind, user, role and parent are stored and never guessed again.

    `born` names the call that makes a child: a repeat of it finds the first. Without an `id` it gets one once created.
    `by` is the path of the agent that makes it, `trace` what that is part of.
    """

    id: str = ""
    path: str
    kind: str
    role: str | None
    user: str
    origin: Origin
    parent: str | None = None
    config: AgentConfig = AgentConfig()
    born: str = ""
    by: str = ""
    trace: str = ""


class InboxRow(msgspec.Struct, frozen=True):
    """A committed message that waits for its agent. `attempts` counts failed tries of turns that named it."""

    seq: int
    agent_id: str
    envelope: Envelope
    attempts: int
    created_at: int


class Receipt(msgspec.Struct, frozen=True):
    """What the sender learns after the commit. A repeat of a key names the first row, and its result once done.

    `trace` and `path` are the row's; `turn` is the one that answered it, or was `stopped` before it was done.
    """

    seq: int
    agent_id: str
    duplicate: bool = False
    state: Literal["waiting", "done", "stopped", "dead"] = "waiting"
    result: str | None = None
    trace: str = ""
    path: str = ""
    turn: int | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as journaled. `attempt` counts from 1; `retry_at` is when a failed one may be tried again.

    `goes_on`: it began with the journal of a turn that had been set aside; known only to who began it.
    """

    turn: int
    agent_id: str
    session: int
    trace: str
    attempt: int
    seqs: tuple[int, ...]
    retry_at: int = 0
    error: str | None = None
    state: str = "open"
    started_at: int = 0
    goes_on: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One journaled step of a turn.

    `model`: `message` is the assistant's. `tool`: `message` is None until it is done, then holds the one result;
    `call_id` and `arguments` say what was called; with `wait` the result comes as the message that names this key,
    until `wait_until` (wall ms). `steer`: `seqs` are inbox rows the model saw from here on. `summary`: older turns were
    compacted, or a try of it was paid for. `recall`: `arguments` name the memories that stood in the prompt.
    """

    turn: int
    step: int
    kind: Literal["model", "tool", "steer", "summary", "recall"]
    name: str
    state: Literal["started", "waiting", "done"]
    idempotent: bool = True
    at_ms: int = 0
    message: Message | None = None
    call_id: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    seqs: tuple[int, ...] = ()
    effects: "Effects | None" = None
    wait: str = ""
    wait_until: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a prompt for the turns of a session up to the turn `through`; they themselves stay in the history.

    `turns` is how many it newly covers; tokens as estimated: `tokens_before` of these and the summary before it,
    `tokens_after` of its own.
    """

    agent_id: str
    session: int
    user: str
    origin: Origin
    through: int
    turns: int
    text: str
    tokens_before: int
    tokens_after: int
    created_at: int = 0


class NewTimer(msgspec.Struct, frozen=True, kw_only=True):
    """Post `envelope` at `due_at`. (agent, key) is unique: a repeat changes nothing."""

    agent_id: str
    key: str
    due_at: int
    envelope: Envelope


class Effects(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What tools asked for inside the store; applied when the turn commits, all or nothing.

    `choices` and `files` go out with the turn's reply, `reaction` after it; `state` is what a behaviour keeps, as JSON.
    """

    posts: tuple[Envelope, ...] = ()
    timers: tuple[NewTimer, ...] = ()
    choices: tuple[Choice, ...] = ()
    files: tuple[File, ...] = ()
    reaction: str = ""
    state: str | None = None

    def __add__(self, more: "Effects") -> "Effects":
        return Effects(
            posts=(*self.posts, *more.posts),
            timers=(*self.timers, *more.timers),
            choices=(*self.choices, *more.choices),
            files=(*self.files, *more.files),
            reaction=more.reaction or self.reaction,
            state=self.state if more.state is None else more.state,
        )


class Shows(msgspec.Struct, frozen=True):
    """That a message is about a request for approval, and which content it shows: the whole content hash, or none."""

    no: int
    content_hash: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply to be delivered; see `Outgoing`. `target` overrides the user's default address on that connector.

    `spoken` is a file in which its text is spoken: where files can be sent it goes in place of the text.
    """

    connector: str
    text: str
    target: str | None = None
    reply_to: str = ""
    silent: bool = False
    effect: str = ""
    choices: tuple[Choice, ...] = ()
    files: tuple[File, ...] = ()
    spoken: File | None = None
    shows: Shows | None = None
    reaction: bool = False


class ForwardedReply(msgspec.Struct, frozen=True, kw_only=True):
    """Words of one agent that go out in the conversation of another of the same user, which is told of them."""

    agent: Agent
    reply: Reply


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """All that one turn changes, committed at once.

    `result` is kept on each named inbox row for senders who wait or repeat. `shown` is what its model was shown last.
    """

    turn: int
    state: Literal["done", "stopped"]
    seqs: tuple[int, ...]
    history: tuple[Message, ...]
    result: str
    replies: tuple[Reply, ...] = ()
    deliveries: tuple[ForwardedReply, ...] = ()
    effects: Effects = Effects()
    shown: ShownPrompt | None = None


class OutboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """A committed reply on its way out. Of one that is `damaged` no more than its text could be read."""

    seq: int
    agent_id: str
    path: str
    user: str
    connector: str
    target: str | None
    text: str
    trace: str
    turn: int | None
    state: Literal["waiting", "sending", "sent", "dead"]
    attempts: int
    retry_at: int
    created_at: int
    error: str | None = None
    receipt: str | None = None
    parts_sent: int = 0
    reply_to: str = ""
    silent: bool = False
    effect: str = ""
    choices: tuple[Choice, ...] = ()
    files: tuple[File, ...] = ()
    spoken: File | None = None
    shows: Shows | None = None
    reaction: bool = False
    damaged: bool = False


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message or reply that was given up on. `body` is the envelope as JSON, or the reply's text.

    `intake`: something came over a connector that nobody could read; `body` is its beginning.
    """

    no: int
    source: Literal["inbox", "outbox", "post", "timer", "intake"]
    seq: int
    agent_id: str
    path: str
    user: str
    origin: str
    trace: str
    code: str
    reason: str
    attempts: int
    body: str
    created_at: int
    replayed_at: int | None = None


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """A timer that has not fired yet."""

    no: int
    agent_id: str
    due_at: int
    envelope: Envelope


class Spend(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and money (millionths of a US dollar) of one call of a model, in a turn (0: in none).

    `reservation` is settled with it (0: there is none), and makes sure that it is charged once. `priced` False: nobody
    knows what it cost. `path` is whose call it was (empty: to be looked up).
    """

    agent_id: str
    user: str
    turn: int
    provider: str
    model: str
    usage: Usage
    cost_micros: int = 0
    priced: bool = True
    wall_ms: int = 0
    reservation: int = 0
    path: str = ""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A message that came over a connector, on its way into an inbox.

    `edits` is the key of the message it replaces. `user`, if there is none of this id yet, is created with it.
    """

    envelope: Envelope
    create: NewAgent | None = None
    edits: str = ""
    user: User | None = None


class PairingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whom nobody knows wrote. `code_hash` is of the code to be shown, if the time has come for one."""

    key: str
    connector: str
    kind: Literal["person", "group"]
    name: str
    code_hash: str


class Fragment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that cannot become a message, with the reason; `key` keeps a repeat from becoming a second letter."""

    key: str
    code: str
    reason: str
    body: str
    user: str = ""
    path: str = ""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one of them: the row, whether a stranger is to be shown a code, or why it was refused.

    `stranger`: whoever wrote was removed in the meantime.
    """

    receipt: Receipt | None = None
    show_code: bool = False
    stranger: bool = False
    refused: str = ""
    envelope: Envelope | None = None


class Stranger(msgspec.Struct, frozen=True, kw_only=True):
    """A stranger who wrote. `code_until` is when the code shown last expires (0: none is valid)."""

    key: str
    connector: str
    kind: Literal["person", "group"]
    name: str
    knocks: int
    first_at: int
    last_at: int
    denied: bool = False
    code_until: int = 0
    tries: int = 0


class TraceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened under a trace id, in the order of time."""

    at_ms: int
    what: str
    path: str
    detail: str


class Commit(msgspec.Struct):
    """What one group commit made true; handed to the store's listener in the loop's thread, in commit order.

    `posted` rows are new and waiting, `reworded` ones were heard; `completed` maps an inbox seq to its result, or None
    when it died, and `answered` to the turn that ended it, if one did; `started` and `ended` are turns of this node;
    `connectors` have new outbox rows; `timers` says that one was added; `dead` are new dead letters;
    `memories` and `documents` say that some were written, `forgotten` that turns changed which had ended. `cut_off` are
    agents that died with their user, whatever they are at; `people` says that a user was removed, `secrets` that a key
    was stored, `shards` that other users are this node's from now on. `news` are those of capabilities, by their class;
    `events` tell observers what was changed, in order.
    """

    posted: list[InboxRow]
    completed: list[tuple[int, str | None]]
    connectors: set[str]
    timers: bool
    dead: list[DeadLetter]
    unheard: int  # answers whose asker is dead
    agents: set[str]  # agents whose row changed (config, state, session), or of whose turns one was replaced
    reworded: list[InboxRow] = []  # msgspec gives each its own
    answered: dict[int, int] = {}
    started: list[TurnStart] = []
    ended: list[TurnResult] = []
    memories: bool = False
    documents: bool = False
    forgotten: bool = False
    cut_off: set[str] = set()
    people: bool = False
    secrets: bool = False
    shards: bool = False
    news: dict[type, Any] = {}
    events: list[Event] = []

    def add(self, kind: type[T]) -> T:
        """Return the news of a capability, to be filled; empty ones if there are none yet."""
        news = self.news.get(kind)
        if news is None:
            news = self.news[kind] = kind()
        assert isinstance(news, kind)
        return news

    def news_of(self, kind: type[T]) -> T | None:
        """Return the news of a capability, if there are any."""
        return self.news.get(kind)
