"""A plugin's parts as the daemon sees them: each call of one is blamed, and what it returns is checked.

Nothing behind these wrappers has to ask again whether a receipt is a text or a vector a number. What does not keep the
contract is an error that names the plugin, and is handled as a crash of it. Chat commands, behaviours, health and hooks
check the one text that they return where they are called.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from functools import partial
from typing import Any, Final

import msgspec
import trio
from msgspec.structs import replace

from daycare.base import foreign
from daycare.base.connector import Paired, Pairing
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, InvalidError
from daycare.base.limits import (
    MODEL_LIST_MAX,
    MODEL_THOUGHT_MAX_CHARS,
    REPLY_MAX_CHARS,
    WAIT_MAX_S,
)
from daycare.base.messages import Text, Thinking, ToolCall, Usage
from daycare.base.setup import Secret, SetupStep, Verified
from daycare.base.times import is_moment
from daycare.base.tool import Sourced, asks, comes_and_goes, outlasts, ready
from daycare.observe import log
from daycare.plugin import (
    Capabilities,
    Completion,
    Connector,
    Embedder,
    Identity,
    InferRequest,
    Outgoing,
    Plugin,
    Provider,
    ProviderConfig,
    StreamEvent,
    TextDelta,
    Tool,
    ToolContext,
    Waiting,
)
from daycare.tools import lengthy
from daycare.tools.context import ToolCallContext

_WAIT_MAX_S: Final = 3_600.0  # that a connector may ask for at a time; it is asked again then
_AT_A_TIME: Final = 8  # pieces of a stream before others run: with all that is done for one, some 10 ms
_TOKENS_MAX: Final = 10**9  # of one call of a model: a thousand of the longest prompts
_DIMENSIONS_MAX: Final = 65_536  # of a vector: ten times those of the largest embedders


def held(plugin: Plugin) -> Plugin:
    """Return a plugin whose tools, providers, embedders and wizard keep the contract, whatever they do.

    Its connectors are made by `connectors_of`.
    """
    return replace(
        plugin,
        tools=[CheckedTool(tool) for tool in plugin.tools],
        providers={kind: partial(_provider, make) for kind, make in plugin.providers.items()},
        embedders={kind: partial(_embedder, make) for kind, make in plugin.embedders.items()},
        wizard=None if plugin.wizard is None else _step(plugin.name, plugin.wizard),
    )


def connectors_of(plugin: Plugin) -> dict[str, Connector]:
    """Make the connectors of a plugin. Raises what their factories raise, `TypeError` for what is no connector."""
    return {
        name: (CheckedPaired if isinstance(made, Paired) else CheckedConnector)(name, made)
        for name, make in plugin.connectors.items()
        for made in [make()]
    }


# -- connectors ------------------------------------------------------------------------------------------------------


_MANNER_MAX_CHARS: Final = 400  # it stands in each prompt


class CheckedConnector:
    """A connector that raises `DaycareError`s and nothing else, and returns what it says it returns."""

    def __init__(self, name: str, connector: Connector) -> None:
        for method in ("send", "split", "delay_s", "capabilities", "identity"):
            if not callable(getattr(connector, method, None)):
                raise TypeError(f"the connector {name} has no method {method}")
        self.name = name
        self.pull = connector.pull is True
        self.manner = foreign.text(getattr(connector, "manner", ""), _MANNER_MAX_CHARS)  # older plugins have none
        self.inner = connector

    def __getattr__(self, name: str) -> Any:
        """Give what is not in the contract, for the plugin's own tests."""
        return getattr(self.inner, name)

    def capabilities(self, target: str) -> Capabilities:
        """Return what can be done in a chat."""
        with self._at_once():
            able = foreign.struct(self.inner.capabilities(target), Capabilities)
            return replace(
                able,
                typing_s=foreign.seconds(able.typing_s, _WAIT_MAX_S),
                preview_every_s=foreign.seconds(able.preview_every_s, _WAIT_MAX_S),
            )

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """Return the reply in parts."""
        with self._at_once():
            parts = foreign.items(self.inner.split(outgoing), foreign.ITEMS_MAX)
            if not parts:
                raise ValueError("it made no part of a reply")
            return [_part(part) for part in parts]

    def delay_s(self, target: str) -> float:
        """Return how long a reply has to wait."""
        with self._at_once():
            return foreign.seconds(self.inner.delay_s(target), _WAIT_MAX_S)

    async def send(self, outgoing: Outgoing) -> str:
        """Deliver one part. What returned has delivered it, so a receipt that is none costs only that it is known by.

        Sending it again because of that would give people the same message eight times.
        """
        with self._blamed():
            receipt: object = await self.inner.send(outgoing)
        try:
            return foreign.line(receipt)
        except (TypeError, ValueError) as wrong:
            log.logger().warning("connector.receipt", connector=self.name, reason=f"{wrong} as a receipt")
            return ""

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Replace a text."""
        with self._blamed():
            await self.inner.edit(target, receipt, text)

    async def withdraw(self, target: str, receipt: str) -> None:
        """Delete what was sent."""
        with self._blamed():
            await self.inner.withdraw(target, receipt)

    async def act(self, target: str, action: str) -> None:
        """Show what the agent does."""
        with self._blamed():
            await self.inner.act(target, action)

    async def draft(self, target: str, number: int, text: str) -> None:
        """Show a reply as far as it has come."""
        with self._blamed():
            await self.inner.draft(target, number, text)

    async def status(self, target: str, text: str) -> str:
        """Send a line, and return its receipt."""
        with self._blamed():
            return foreign.line(await self.inner.status(target, text))

    async def react(self, target: str, message: str, emoji: str) -> None:
        """Put an emoji to a message."""
        with self._blamed():
            await self.inner.react(target, message, emoji)

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Return the bytes of a file."""
        with self._blamed():
            return await lengthy.content(await self.inner.fetch(reference, max_bytes), max_bytes)

    def identity(self) -> Identity | None:
        """Return who the connector is."""
        with self._at_once():
            known = self.inner.identity()
            return None if known is None else foreign.struct(known, Identity, foreign.LINE_MAX_CHARS)

    def _blamed(self) -> AbstractContextManager[None]:
        """Where it may have done something already: that may be tried again."""
        return error_boundary("CONNECTOR_CRASHED", f"{self.name} crashed", hint="daycare logs")

    def _at_once(self) -> AbstractContextManager[None]:
        """Where it only says something, which is the same each time."""
        return error_boundary("CONNECTOR_CRASHED", f"{self.name} crashed", InvalidError, hint="daycare logs")


class CheckedPaired(CheckedConnector):
    """A connector that is paired by a code."""

    async def pair(self, phone: str) -> Pairing:
        """Begin."""
        with self._blamed():
            return _pairing(await self.inner.pair(phone))  # type: ignore[attr-defined]

    def pairing(self) -> Pairing:
        """Return how far it is."""
        with self._at_once():
            return _pairing(self.inner.pairing())  # type: ignore[attr-defined]

    async def unpair(self) -> None:
        """Give the account back."""
        with self._blamed():
            await self.inner.unpair()  # type: ignore[attr-defined]


def _part(part: object) -> Outgoing:
    """Return a part of a reply; it goes back to its connector only, so `markup` is that one's business."""
    if not isinstance(part, Outgoing):
        raise TypeError(f"it made a {type(part).__name__} of a reply, expected an Outgoing")
    return replace(part, text=foreign.text(part.text))


def _pairing(found: object) -> Pairing:
    pairing = foreign.struct(found, Pairing)
    return pairing if is_moment(pairing.until_ms) else replace(pairing, until_ms=0)


# -- models ----------------------------------------------------------------------------------------------------------


class CheckedProvider:
    """A provider whose streams hold what the contract says, and let others run in between."""

    def __init__(self, name: str, provider: Provider) -> None:
        self.name = name
        self.needs_key = provider.needs_key is True
        self.inner = provider

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream the model's answer."""
        doing = f"Model call to {self.name}/{request.model} failed"
        with error_boundary("PROVIDER_CRASHED", doing, hint="daycare logs"):
            events = self.inner.infer(request)
            if not hasattr(events, "__anext__") or not hasattr(events, "aclose"):
                raise TypeError(f"infer gave a {type(events).__name__}, expected an async generator")
            async with aclosing(events):
                seen = 0
                async for event in events:
                    seen += 1
                    if seen % _AT_A_TIME == 0:
                        await trio.lowlevel.checkpoint()  # it may never wait itself, and nobody's turn would come
                    with error_boundary("MODEL_GARBLED", doing):
                        known = await _event(event)
                    yield known

    async def models(self) -> list[str]:
        """Return the names of the models that can be used."""
        with error_boundary("PROVIDER_CRASHED", f"Asking {self.name} for its models failed", hint="daycare logs"):
            found = foreign.items(await self.inner.models(), 100 * MODEL_LIST_MAX)
            return [foreign.line(name) for name in found]

    async def aclose(self) -> None:
        """Close its connections, if it keeps any."""
        close = getattr(self.inner, "aclose", None)
        if close is not None:
            with error_boundary("PROVIDER_CRASHED", f"Closing {self.name} failed", hint="daycare logs"):
                await close()


class CheckedEmbedder:
    """An embedder whose vectors are as many as the texts, and all of one length; what they hold is seen in memory."""

    def __init__(self, name: str, embedder: Embedder) -> None:
        self.name = name
        self.needs_key = embedder.needs_key is True
        self.inner = embedder

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        """Return the vectors of texts."""
        with error_boundary("EMBEDDING_GARBAGE", f"Embedding with {self.name}", hint="daycare logs"):
            view: object = await self.inner.embed(model, texts)
            if not isinstance(view, memoryview) or view.format != "f":
                raise TypeError(f"it gave a {type(view).__name__}, expected a view of 32-bit floats")
            shape = view.shape or ()
            if len(shape) != 2 or shape[0] != len(texts) or not 0 < shape[1] <= _DIMENSIONS_MAX:
                raise ValueError(f"{shape} numbers came for {len(texts)} texts")
            return view


def _provider(make: Callable[[ProviderConfig], Provider], config: ProviderConfig) -> Provider:
    return CheckedProvider(config.name, make(config))


def _embedder(make: Callable[[ProviderConfig], Embedder], config: ProviderConfig) -> Embedder:
    return CheckedEmbedder(config.name, make(config))


async def _event(event: object) -> StreamEvent:
    if isinstance(event, TextDelta):
        return TextDelta(await lengthy.piece(event.text))
    if not isinstance(event, Completion):
        raise TypeError(f"it gave a {type(event).__name__}, expected a TextDelta or a Completion")
    done = await lengthy.struct(event, Completion, REPLY_MAX_CHARS + MODEL_THOUGHT_MAX_CHARS)
    if done.message.role != "assistant":
        raise ValueError(f"it answered as {done.message.role}")
    for part in done.message.parts:
        match part:
            case Text():
                if len(part.text) > REPLY_MAX_CHARS:
                    raise ValueError(f"the answer is longer than {REPLY_MAX_CHARS} characters")
            case ToolCall():
                foreign.line(part.id), foreign.line(part.name)
            case Thinking():
                foreign.line(part.provider)
            case _:
                raise ValueError(f"there is a {type(part).__name__} in the answer")
    counts = (getattr(done.usage, name) for name in Usage.__struct_fields__)
    if not all(0 <= count <= _TOKENS_MAX for count in counts):
        raise ValueError("it counted tokens below 0, or more than there are")
    return replace(done, model=done.model[: foreign.LINE_MAX_CHARS])


# -- tools -----------------------------------------------------------------------------------------------------------


class CheckedTool:
    """A tool that answers with text, or that its answer comes later. What it raises, the runner blames on it."""

    def __init__(self, tool: Tool) -> None:
        self.spec = tool.spec
        self.idempotent = tool.idempotent
        self.inner = tool
        if comes_and_goes(tool):
            self.ready = self._ready

    async def run(self, context: ToolContext, arguments: Any) -> str | Waiting | Sourced:
        """Do it."""
        result: object = await self.inner.run(context, arguments)
        if isinstance(result, Waiting):
            deadline_s = foreign.seconds(result.deadline_s, WAIT_MAX_S)
            if not isinstance(context, ToolCallContext) or result.key not in context.waits:
                raise ValueError("it waits for an answer to what it has not asked")
            return Waiting(key=result.key, deadline_s=deadline_s)
        if isinstance(result, Sourced):
            sourced = foreign.struct(result, Sourced)
            return Sourced(await lengthy.text(sourced.text), sourced.origins)
        return await lengthy.text(result)

    def _ready(self) -> bool:
        """Return whether agents have it now; one that fails to say is not there."""
        try:
            with error_boundary("PLUGIN_FAILED", f"asking whether the tool {self.spec.name} is ready"):
                return ready(self.inner)
        except DaycareError:
            return False

    def outlasts(self, arguments: Any) -> bool:
        """Return whether such a call brings about something that outlasts its turn."""
        return outlasts(self.inner, arguments)

    async def asks(self, context: ToolContext, arguments: Any) -> str:
        """Return why a person has to say yes to a call."""
        return foreign.text(await asks(self.inner, context, arguments), foreign.REASON_MAX_CHARS)

    def decode(self, arguments: Mapping[str, Any]) -> Any:
        """Validate raw arguments."""
        try:
            return self.inner.decode(arguments)
        except msgspec.ValidationError as wrong:
            raise msgspec.ValidationError(foreign.text(str(wrong), foreign.REASON_MAX_CHARS)) from None


# -- the wizard ------------------------------------------------------------------------------------------------------


def _step(plugin: str, step: SetupStep) -> SetupStep:
    def missing() -> str:
        with error_boundary("PLUGIN_FAILED", f"asking the plugin {plugin} what it needs"):
            return foreign.text(step.missing(), foreign.REASON_MAX_CHARS)

    def connectors(settings: Any, secret: Secret) -> Sequence[str]:
        with error_boundary("PLUGIN_FAILED", f"asking the plugin {plugin} for its connectors"):
            return [foreign.line(name) for name in foreign.items(step.connectors(settings, secret), foreign.ITEMS_MAX)]

    check = step.check

    async def verified(connector: str, settings: Any, secret: Secret) -> Verified:
        assert check is not None
        with error_boundary("PROBE_FAILED", f"trying {connector} of the plugin {plugin}"):
            return foreign.struct(await check(connector, settings, secret), Verified, foreign.REASON_MAX_CHARS)

    return replace(step, missing=missing, connectors=connectors, check=None if check is None else verified)
