"""Which model answers, and one call of it: the place where a request leaves the daemon.

`resolve` turns a role into a provider and a model; `infer` makes exactly one call and holds any provider, ours or a
plugin's, to the contract: words within the deadlines, one whole `Completion` at the end.
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Final, Literal

import msgspec
import trio

from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.limits import MODEL_FIRST_TOKEN_S, MODEL_NEXT_TOKEN_S, REPLY_MAX_CHARS
from daycare.plugin import Completion, InferRequest, Provider, StreamEvent

ROLES: Final = ("default", "user", "subagent", "memory", "memorySearch", "task")
_END: Final = "end"


class Choice(msgspec.Struct, frozen=True):
    """A configured provider and the provider's own name of a model."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class Pool:
    """The configured providers by name, and the model of each role as `provider/model`."""

    def __init__(self, providers: Mapping[str, Provider], models: Mapping[str, str]) -> None:
        unknown = models.keys() - set(ROLES)
        if unknown:
            raise InvalidError(
                "MODEL_ROLE_UNKNOWN",
                f"[models] of config.toml names {', '.join(sorted(unknown))}, which is no role",
                hint=f"the roles are {', '.join(ROLES)}",
            )
        self._providers = dict(providers)
        self._models = dict(models)

    def resolve(self, role: str | None = None, override: str | None = None) -> Choice:
        """Return the model named by `override`, else the role's, else the default one.

        A name without prefix belongs to the only provider, if there is one only. Raises `InvalidError`.
        """
        name = override or (self._models.get(role) if role else None) or self._models.get("default")
        if not name:
            raise InvalidError(
                "MODEL_NOT_CONFIGURED",
                f"No model is configured for the role {role or 'default'}, and there is no default",
                hint='set default = "offline/rules" (or another provider/model) in [models] of config.toml',
            )
        prefix, slash, model = name.partition("/")
        if prefix in self._providers and model:
            return Choice(prefix, model)
        if slash:
            self._provider(prefix)  # raises, unless the model's part is empty
            raise InvalidError("MODEL_NOT_CONFIGURED", f"The model {name} has no name after its provider's")
        if len(self._providers) == 1:
            return Choice(next(iter(self._providers)), name)
        raise InvalidError(
            "MODEL_AMBIGUOUS",
            f"The model {name} names no provider, and configured are: {self._available}",
            hint=f"write PROVIDER/{name} with one of them",
        )

    async def infer(self, choice: Choice, request: InferRequest, on_delta: Callable[[str], None]) -> Completion:
        """Ask `choice` once; `on_delta` gets the text piece by piece as it comes.

        `request.model` is set from `choice`. Raises what the provider raises, and `UnavailableError` for a provider
        that stays silent (`MODEL_SILENT`), talks without end (`REPLY_TOO_LARGE`) or ends otherwise than with one
        completion (`STREAM_CUT`). Text given to `on_delta` before an error is void.
        """
        provider = self._provider(choice.provider)
        # The seam for retries within a turn and for other models to fall back on: a loop around this one call. Until
        # then a failed call fails the turn's attempt, and the turn is retried.
        return await _call(provider, msgspec.structs.replace(request, model=choice.model), on_delta)

    async def models(self) -> list[str]:
        """Return what can be used now as `provider/model`, sorted. Raises if a provider cannot say."""
        found: list[str] = []
        for name, provider in self._providers.items():
            found += [str(Choice(name, model)) for model in await provider.models()]
        return sorted(found)

    async def aclose(self) -> None:
        """Close the connections of those providers that keep any."""
        for provider in self._providers.values():
            close = getattr(provider, "aclose", None)
            if close is not None:
                await close()

    def _provider(self, name: str) -> Provider:
        provider = self._providers.get(name)
        if provider is None:
            raise InvalidError(
                "PROVIDER_NOT_CONFIGURED",
                f"The model provider {name} is not configured; configured are: {self._available}",
                hint=f"daycare keys add {name}, or add [providers.{name}] to config.toml",
            )
        return provider

    @property
    def _available(self) -> str:
        return ", ".join(sorted(self._providers)) or "none"


async def _call(provider: Provider, request: InferRequest, on_delta: Callable[[str], None]) -> Completion:
    completion: Completion | None = None
    chars = 0
    wait_s = MODEL_FIRST_TOKEN_S
    async with aclosing(provider.infer(request)) as events:
        while True:
            event: StreamEvent | Literal["end"] | None = None
            with trio.move_on_after(wait_s):
                event = await anext(events, _END)
            if event is None:
                raise _failed("MODEL_SILENT", provider, request, f"no word came for {wait_s:g} s")
            if event == _END:
                break
            if completion is not None:
                raise _failed("STREAM_CUT", provider, request, "the stream went on after the reply's end")
            if isinstance(event, Completion):
                completion = event
            else:
                chars += len(event.text)
                if chars > REPLY_MAX_CHARS:
                    raise _failed("REPLY_TOO_LARGE", provider, request, f"it is longer than {REPLY_MAX_CHARS}")
                if event.text:  # an empty one is a sign of life
                    on_delta(event.text)
            wait_s = MODEL_NEXT_TOKEN_S
    if completion is None:
        raise _failed("STREAM_CUT", provider, request, "the stream ended before the reply did")
    return completion


def _failed(code: str, provider: Provider, request: InferRequest, why: str) -> UnavailableError:
    return UnavailableError(code, f"Model call to {provider.name}/{request.model} failed: {why}")
