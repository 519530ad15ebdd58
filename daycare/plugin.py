"""All that a plugin may import of daycare, beside `daycare.base`: the contracts of connectors, providers and tools.

Built-in providers, tools and the terminal's connector enter by this door too (entry points `daycare.plugins`).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from daycare.base.messages import Message, Origin, Usage

CONTRACT_VERSION = 1


# -- providers -------------------------------------------------------------------------------------------------------


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model sees it. `schema` is a JSON Schema of an object."""

    name: str
    description: str
    schema: dict[str, Any]


class InferRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model.

    `system` is the prompt's stable part; `messages` ends with a user or tool message. `zone` is the IANA zone of the
    user; `now_ms` the wall time the call is made for. `model` is the provider's own name for it, without prefix.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    zone: str = "UTC"
    now_ms: int = 0
    max_output_tokens: int | None = None
    temperature: float | None = None


class TextDelta(msgspec.Struct, frozen=True):
    """The next piece of the reply's text."""

    text: str


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a stream: the whole assistant message and why it ended.

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
    `InvalidError` (the request is wrong) or `ForbiddenError` (key refused). Never a partial tool call.
    """

    name: str

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


# -- tools -----------------------------------------------------------------------------------------------------------


class ToolContext(Protocol):
    """What a running tool may do and know. Messages it sends are committed with the turn, not before."""

    path: str
    user: str
    zone: str
    now_ms: int
    trace: str
    turn: int
    step: int
    call_id: str

    async def send(self, to: str, text: str) -> None:
        """Send `text` to the agent at `to` when this turn commits. Raises if the path is not an agent of this user."""
        ...

    def remind(self, after_s: float, text: str) -> int:
        """Have `text` posted to this agent after so many seconds; return the due wall time in ms."""
        ...

    async def ask(self, to: str, text: str, deadline_s: float) -> str:
        """Post to another agent and wait for its answer. Raises on a cycle, a dead agent or the deadline."""
        ...


class Tool(Protocol):
    """Something a model can do.

    `idempotent` False means: after a crash in its window it is never run again, the step becomes `uncertain`.
    `run` gets arguments that were validated against `spec.schema` and returns text for the model; it raises
    `DaycareError` for failures the model should read.
    """

    spec: ToolSpec
    idempotent: bool

    def run(self, context: ToolContext, arguments: Any) -> Awaitable[str]:
        """Do it."""
        ...

    def decode(self, arguments: Mapping[str, Any]) -> Any:
        """Validate raw arguments; raise `msgspec.ValidationError` naming the wrong or unknown field."""
        ...


# -- connectors ------------------------------------------------------------------------------------------------------


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """A reply on its way out. `target` is the connector key's part after `name:`; `key` is stable over retries."""

    outbox: int
    key: str
    path: str
    user: str
    target: str
    text: str
    maybe_duplicate: bool = False


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person (or program) said, on its way in.

    `sender` is the connector key, `telegram:42`; `key` the platform's stable id of this very event, so that a repeat is
    recognised; `path` the agent meant, empty for the one that belongs to the connector. `reply_target` overrides where
    the answer goes on that platform.
    """

    connector: str
    sender: str
    key: str
    text: str
    path: str = ""
    origin: Origin = Origin.PERSON
    reply_target: str | None = None
    meta: Mapping[str, str] = {}


class Connector(Protocol):
    """A way people talk to agents.

    `send` returns a receipt once the platform has the message. It may be called again with the same `key` after a
    crash; where the platform cannot deduplicate, `maybe_duplicate` is set and the text should say so. It raises
    `UnavailableError` (retried), or `InvalidError`/`ForbiddenError` (given up, visible as a dead letter). Calls for
    one target come one after another, in order.
    """

    name: str
    pull: bool  # True: readers fetch replies and confirm them, nothing is pushed

    async def send(self, outgoing: Outgoing) -> str:
        """Deliver one reply and return the platform's receipt."""
        ...


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry point of `daycare.plugins` names.

    `providers` maps a provider kind to its factory; `tools` are offered to every agent that may use them; `connectors`
    maps a connector name to its factory.
    """

    name: str
    contract: int = CONTRACT_VERSION
    providers: Mapping[str, Callable[[ProviderConfig], Provider]] = {}
    tools: Sequence[Tool] = ()
    connectors: Mapping[str, Callable[[], Connector]] = {}
