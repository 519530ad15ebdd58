"""All that a plugin may import of daycare, beside `daycare.base`: the contracts of connectors, providers and tools.

Built-in providers, tools and the terminal's connector enter by this door too (entry points `daycare.plugins`).
"""

from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import msgspec

from daycare.base.behaviour import Behaviour as Behaviour
from daycare.base.behaviour import BehaviourContext as BehaviourContext
from daycare.base.behaviour import BehaviourMessage as BehaviourMessage
from daycare.base.connector import Attachment as Attachment
from daycare.base.connector import BaseConnector as BaseConnector
from daycare.base.connector import Capabilities as Capabilities
from daycare.base.connector import Connector as Connector
from daycare.base.connector import Health as Health
from daycare.base.connector import Identity as Identity
from daycare.base.connector import Inbound as Inbound
from daycare.base.connector import Outcome as Outcome
from daycare.base.connector import Outgoing as Outgoing
from daycare.base.connector import RemoteFile as RemoteFile
from daycare.base.connector import Unreadable as Unreadable
from daycare.base.errors import UnavailableError
from daycare.base.hook_events import BeforeTurn as BeforeTurn
from daycare.base.hook_events import MessageSeen as MessageSeen
from daycare.base.hook_events import SessionEnded as SessionEnded
from daycare.base.hook_events import TurnEnded as TurnEnded
from daycare.base.memory import Memory as Memory
from daycare.base.messages import Choice as Choice
from daycare.base.messages import Message, Usage
from daycare.base.setup import Secret as Secret
from daycare.base.setup import SetupQuestion as SetupQuestion
from daycare.base.setup import SetupStep as SetupStep
from daycare.base.setup import Verified as Verified
from daycare.base.tool import StructTool as StructTool
from daycare.base.tool import Tool as Tool
from daycare.base.tool import ToolContext as ToolContext
from daycare.base.tool import ToolSpec as ToolSpec
from daycare.base.tool import Waiting as Waiting

CONTRACT_VERSION = 1


# -- providers -------------------------------------------------------------------------------------------------------


class OutputSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON that a reply must be. `schema` is a JSON Schema of an object; the reply's text is one such object."""

    name: str
    schema: dict[str, Any]


class InferRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model.

    `system` is the prompt's stable part; `messages` ends with a user or tool message. `zone` is the IANA zone of the
    user; `now_ms` the wall time the call is made for. `model` is the provider's own name for it, without prefix.
    Without `may_call` the model is to answer in words; `tools` are there as some servers want those declared that the
    messages speak of.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    may_call: bool = True
    zone: str = "UTC"
    now_ms: int = 0
    max_output_tokens: int | None = None
    temperature: float | None = None
    output: OutputSpec | None = None


class TextDelta(msgspec.Struct, frozen=True):
    """The next piece of the reply's text."""

    text: str


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a stream: the whole assistant message and why it ended.

    `message` may hold `Thinking` parts; they are given back in the later calls of the same turn.

    `finish` is `stop`, `tools` (there are tool calls to run), `length` (cut by a token limit) or `refused` (a filter).
    """

    message: Message
    finish: Literal["stop", "tools", "length", "refused"]
    usage: Usage = Usage()
    model: str = ""


StreamEvent = TextDelta | Completion


class Provider(Protocol):
    """A source of model replies.

    `infer` is an async generator that yields any number of `TextDelta` and, last, exactly one `Completion`; a stream
    that ends without it is an error. It is closed by the caller (`aclosing`), so it must hold no nursery or cancel
    scope open across a `yield`. It makes exactly one call and never retries: retries are the pool's, so that the
    journal sees them. It raises `UnavailableError` (retry may help; `retry_after_s` where the provider said),
    `InvalidError` (the request is wrong; with the code `CONTEXT_OVERFLOW` it is too long for the model) or
    `SetupError` (a key is missing or refused, or something else that a person has to set right; `hint` says how).
    Never a partial tool call. `needs_key` says that no call can succeed without one.
    """

    name: str
    needs_key: bool

    def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream the model's answer to `request`."""
        ...

    async def models(self) -> list[str]:
        """Return the names of the models that can be used now, without prefix."""
        ...


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One `[providers.NAME]` section, its key looked up. `options` are the section's other keys."""

    name: str
    kind: str
    base_url: str = ""
    secret: Callable[[], str | None] = lambda: None  # read at each call, so a rotated key takes effect at once
    options: Mapping[str, Any] = {}


class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how alike they are.

    Makes one call and never retries; raises as a `Provider` does.
    """

    name: str
    needs_key: bool

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        """Return float32[len(texts), dimensions], each row of length 1: a view of format `f` and these two dimensions.

        `vectors` makes one of lists, `data` of a numpy array is one; `numpy.asarray` reads it without a copy.
        """
        ...


def vectors(rows: Sequence[Sequence[float]]) -> memoryview:
    """Return float32[n, dimensions] of rows as a server sent them; raises `UnavailableError` for uneven ones."""
    dimensions = len(rows[0]) if rows else 0
    if any(len(row) != dimensions for row in rows) or not dimensions:
        raise UnavailableError("EMBEDDING_SHAPE", "reading vectors: they are empty or of different lengths")
    numbers = array("f")
    for row in rows:
        numbers.extend(row)
    view: Any = memoryview(numbers).cast("B").cast("f", [len(rows), dimensions])
    return cast(memoryview, view)  # type checkers tell views of floats apart, numpy's and others' of bytes do not


# -- plugins ---------------------------------------------------------------------------------------------------------


class Logger(Protocol):
    """Writes lines to the daemon's log: a stable name in lower case, and fields. Never what people said."""

    def debug(self, event: str, **fields: Any) -> Any:
        """Write a line for whoever repairs the plugin."""
        ...

    def info(self, event: str, **fields: Any) -> Any:
        """Write a line for the operator."""
        ...

    def warning(self, event: str, **fields: Any) -> Any:
        """Write a line about something that did not work."""
        ...

    def error(self, event: str, **fields: Any) -> Any:
        """Write a line about something that the operator has to repair."""
        ...


class PluginContext(Protocol):
    """What the daemon gives to a plugin: its settings, and the few things of the installation it may touch.

    `config` is the `[plugins.NAME]` section as the plugin's own `config` type, None if it declares none.
    """

    name: str
    config: Any

    @property
    def log(self) -> Logger:
        """The plugin's own logger."""
        ...

    @property
    def data(self) -> Path:
        """A folder of its own in the home, `plugins/NAME` of mode 0700; made when it is first asked for."""
        ...

    def now_ms(self) -> int:
        """Return the wall time, milliseconds since the Unix epoch. Wait with trio, never with `time.sleep`."""
        ...

    def secret(self, name: str) -> str | None:
        """Return a stored secret, None if there is none. Read it at each use, so a rotated one takes effect at once.

        Its name is the plugin's own or begins with it and a dot (`weather`, `weather.station`); `ForbiddenError` for
        any other.
        """
        ...

    async def accept(self, inbound: Inbound) -> int:
        """Take in what somebody said over one of the plugin's connectors; returns its number once it is committed.

        Raises `ForbiddenError` for a stranger or another's connector, `InvalidError`, and `BusyError` for a full inbox.
        """
        ...

    async def receive(
        self, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str = ""
    ) -> Sequence[Outcome]:
        """Take in what came over a connector, in order, together with where to read on: one commit, or nothing.

        Acknowledge to the platform after it returns, never before. What is wrong with one of them is told in its
        `Outcome` and keeps none of the others out; a stranger's is counted and leads to a pairing code at most. Raises
        `UnavailableError` or `BusyError` when the store takes nothing now: repeat all of it.
        """
        ...

    async def recall(self, connector: str, name: str = "cursor") -> str:
        """Return what was remembered last under a name of one's connector, empty if nothing: `cursor` of `receive`."""
        ...

    async def remember(self, connector: str, name: str, value: str) -> None:
        """Keep a short value over restarts; at most 1,000 names a connector and 4,000 characters a value."""
        ...

    async def moved(self, connector: str, old: str, new: str) -> None:
        """Tell that a chat has another key now: its user, its waiting replies and its topics follow. Idempotent."""
        ...

    def report(self, connector: str, health: Health) -> None:
        """Tell how a connection is: shown by `status`, and an event when it changes."""
        ...

    async def while_connected(self, connector: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run what connects one of the plugin's connectors, until it returns.

        Where several nodes share a store that is one at a time: it is cancelled while the account is another node's,
        and begun again here later.
        """
        ...

    async def hand_on(self, connector: str, body: bytes) -> None:
        """Hand on what a platform has posted for one of the plugin's connectors; return once it is taken.

        It is taken within `taking`, on whichever node is connected: so each node may listen. What it brings has to be
        known as the platform's before. Raises what was raised there, and `UnavailableError` where nobody has taken it.
        """
        ...

    def taking(self, connector: str, take: Callable[[bytes], Awaitable[None]]) -> AbstractContextManager[None]:
        """Within it, take what is handed on for one of the plugin's connectors: `take` returns once it is committed."""
        ...

    def commands(self) -> Sequence[tuple[str, str]]:
        """Return (word, help) of each chat command, for a platform's menu."""
        ...

    def start_soon(self, task: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run a background task that lives no longer than the plugin: when it raises, the plugin starts anew.

        Raises `ConflictError` while the plugin does not run, `BusyError` when it has 256 of them.
        """
        ...


class HookSet(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin wants to hear of; each is given the plugin's context and what happened.

    `message_before` may return texts, which the model reads in this turn as data from the plugin. It has 2 s and 4,000
    characters. The others run in the background, 30 s each, one at a time and in order; up to 256 wait, and past that
    the oldest are dropped. They are notifications: after a crash of the daemon some are never sent, none comes twice.
    A hook that fails three times in a row is left out for a minute, then for longer, up to an hour.
    """

    message_before: Callable[[PluginContext, BeforeTurn], Awaitable[Sequence[str]]] | None = None
    message_after: Callable[[PluginContext, MessageSeen], Awaitable[None]] | None = None
    turn_end: Callable[[PluginContext, TurnEnded], Awaitable[None]] | None = None
    session_end: Callable[[PluginContext, SessionEnded], Awaitable[None]] | None = None


class ChatCommand(msgspec.Struct, frozen=True):
    """A chat command of a plugin: what it does in a few words, and how.

    `run` is given the plugin's context, the agent's path, the user and what stands behind the command; it returns the
    answer. It has 30 s.
    """

    help: str
    run: Callable[[PluginContext, str, str, str], Awaitable[str]]


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry point of `daycare.plugins` names.

    `providers` maps a provider kind to its factory, `embedders` an embedder kind; `tools` are offered to every agent
    that may use them; `behaviours` are what apps can do; `connectors` maps a connector name to its factory, `commands`
    the word of a chat command, without its slash, to what it does; `hooks` are called when something happens.
    `config` is the type of the `[plugins.NAME]` section of config.toml. `version` is that of the package where it is
    empty.

    `setup` is called once, in a worker thread and before anything runs: it returns the plugin with what it provides
    under these settings (`msgspec.structs.replace(plugin, tools=...)`). `start` runs as long as the plugin lives: it is
    cancelled when the daemon stops, begun anew after a backoff when it raises, and may also return. `health` says in a
    few words how the plugin is, or raises. `wizard` is its step in `daycare init`.

    Where several nodes share a store, a plugin with connectors that push is started on one of them. With `by_connector`
    it is started on all, and connects each of its connectors within `context.while_connected`: each on one of them.
    """

    name: str
    version: str = ""
    description: str = ""
    contract: int = CONTRACT_VERSION
    providers: Mapping[str, Callable[[ProviderConfig], Provider]] = {}
    embedders: Mapping[str, Callable[[ProviderConfig], Embedder]] = {}
    tools: Sequence[Tool] = ()
    behaviours: Sequence[Behaviour] = ()
    connectors: Mapping[str, Callable[[], Connector]] = {}
    commands: Mapping[str, ChatCommand] = {}
    hooks: HookSet = HookSet()
    config: type[msgspec.Struct] | None = None
    setup: "Callable[[PluginContext], Plugin] | None" = None
    start: Callable[[PluginContext], Awaitable[None]] | None = None
    health: Callable[[PluginContext], Awaitable[str]] | None = None
    wizard: SetupStep | None = None
    by_connector: bool = False
