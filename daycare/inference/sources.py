"""The providers there are, and what is known of each beside how to call it: its key, its vendor, its list of models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import trio

from daycare.base.errors import DaycareError, SetupError, UnavailableError
from daycare.base.limits import MODEL_LIST_AGAIN_S, MODEL_LIST_MAX
from daycare.inference import catalog
from daycare.inference.catalog import ModelFacts
from daycare.plugin import Provider

MODEL_LIST_KEEP_S: Final = 3_600.0  # a provider's list of models changes every few weeks
MODEL_LIST_DEADLINE_S: Final = 5.0  # somebody waits for a turn or a listing

_HOSTS: Final = {"api.openai.com": "openai", "api.anthropic.com": "anthropic", "openrouter.ai": "openrouter"}


@dataclass(frozen=True)
class ProviderSource:
    """A provider. `given` says that config.toml has a section for it; `key` is the name of its secret.

    `has_key` is asked again each time, so that a key counts from the moment it is stored. `vendor` is the catalog's
    name for whose models these are; `corrections` are fields of ModelFacts by model.
    """

    name: str
    provider: Provider
    key: str = ""
    has_key: Callable[[], bool] = lambda: False
    given: bool = True
    vendor: str = ""
    corrections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether a call can succeed: there is a key, or none is needed."""
        return not self.provider.needs_key or self.has_key()

    @property
    def chosen(self) -> bool:
        """Whether somebody set it up, by a section or by a key: it may be asked without having been named."""
        return self.ready and (self.given or self.has_key())

    def facts(self, model: str) -> ModelFacts:
        """Return what is known of one of its models."""
        return catalog.facts(self.vendor or self.name, model, self.corrections.get(model))


Providers = Mapping[str, ProviderSource]  # by name, in the order of config.toml, the well-known ones last


def vendor_at(name: str, kind: str, base_url: str) -> str:
    """Return whose models a section means: its address says it, or its kind, or its name."""
    if not base_url:
        return "anthropic" if kind == "anthropic" else name
    host = urlsplit(base_url).hostname or ""
    return _HOSTS.get(host, name if name not in _HOSTS.values() else "")


def not_configured(name: str, providers: Providers) -> SetupError:
    """Return the error for a provider that cannot be called: which, what there is instead, and how to add it."""
    there = ", ".join(source.name for source in providers.values() if source.chosen) or "none"
    source = providers.get(name)
    if source is not None:
        why, hint = "has no key", f"daycare keys add {source.key or name}"
    else:
        why = "is not configured"
        hint = f"add [providers.{name}] to config.toml and, if it asks for a key: daycare keys add {name}"
    return SetupError(
        "PROVIDER_NOT_CONFIGURED", f"Choosing a model: the provider {name} {why}; configured are: {there}", hint=hint
    )


class ModelListing:
    """The models a provider says it has: asked with a short deadline, kept an hour; an old list rather than none."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._one = trio.Lock()
        self._fresh_until = 0.0
        self._models: list[str] | None = None
        self.error: DaycareError | None = None  # why it did not answer last time

    @property
    def known(self) -> list[str]:
        """What it said last; empty if it never did."""
        return self._models or []

    async def get(self, *, now: bool = False) -> list[str] | None:
        """Return the names, None if it never answered. `now` asks even if it was asked a moment ago."""
        async with self._one:
            if now or trio.current_time() >= self._fresh_until:
                await self._ask()
        return self._models

    async def _ask(self) -> None:
        keep_s = MODEL_LIST_AGAIN_S
        try:
            with trio.fail_after(MODEL_LIST_DEADLINE_S):
                self._models = (await self._provider.models())[:MODEL_LIST_MAX]
            self.error, keep_s = None, MODEL_LIST_KEEP_S
        except DaycareError as error:
            self.error = error
        except trio.TooSlowError:
            name = self._provider.name
            self.error = UnavailableError(
                "MODELS_SILENT", f"Asking {name} for its models: no answer within {MODEL_LIST_DEADLINE_S:g} s"
            )
        self._fresh_until = trio.current_time() + keep_s
