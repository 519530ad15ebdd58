"""From a role to a model: what [models] of config.toml and an agent's own `model` mean. Nothing is inferred here."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from daycare.base.errors import AwayError, InvalidError, SetupError
from daycare.base.limits import MODEL_LIST_AGAIN_S
from daycare.inference import catalog
from daycare.inference.breaker import Breaker
from daycare.inference.sources import ModelListing, Providers, ProviderSource, not_configured

ROLES: Final = ("default", "user", "subagent", "memory", "memorySearch", "task")


class ModelChoice(msgspec.Struct, frozen=True):
    """A provider and the provider's own name of a model. `of` is the number of the set of providers it is one of."""

    provider: str
    model: str
    of: int = 0

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class Names:
    """Finds the choice that a name means. A name without `PROVIDER/` belongs to whoever has such a model."""

    def __init__(
        self,
        providers: Providers,
        models: Mapping[str, str],
        fallbacks: Sequence[str],
        listings: Mapping[str, ModelListing],
        breakers: Mapping[str, Breaker],
        number: int = 0,
    ) -> None:
        unknown = models.keys() - set(ROLES)
        if unknown:
            raise InvalidError(
                "MODEL_ROLE_UNKNOWN",
                f"[models] of config.toml names {', '.join(sorted(unknown))}, which is no role",
                hint=f"the roles are {', '.join(ROLES)}",
            )
        self._providers = providers
        self._models = dict(models)
        self._fallbacks = tuple(fallbacks)
        self._listings = listings
        self._breakers = breakers
        self._number = number  # of the set

    def of_role(self, role: str | None) -> str:
        """Return the name configured for a role, else the default one. Raises `SetupError` MODEL_NOT_CONFIGURED."""
        name = (self._models.get(role) if role else None) or self._models.get("default")
        if not name:
            raise SetupError(
                "MODEL_NOT_CONFIGURED",
                f"No model is configured for the role {role or 'default'}, and there is no default",
                hint='set default = "offline/rules" (or another provider/model) in [models] of config.toml',
            )
        return name

    async def resolve(self, name: str) -> ModelChoice:
        """Return what a name means. Providers may be asked for their models if it has no prefix.

        Raises `SetupError` (PROVIDER_NOT_CONFIGURED, MODEL_NOT_CONFIGURED, MODEL_UNKNOWN), or `AwayError` if the
        providers that may have the model do not answer.
        """
        choice = self._prefixed(name) or self._in_catalog(name) or await self._asked(name)
        if not self._providers[choice.provider].ready:
            raise not_configured(choice.provider, self._providers)
        return choice

    def fallbacks(self) -> list[ModelChoice]:
        """Return the fallbacks that can be called now, in order."""
        found = []
        for name in self._fallbacks:
            prefix, _, model = name.partition("/")
            if prefix in self._providers and model and self._providers[prefix].ready:
                found.append(ModelChoice(prefix, model, self._number))
        return found

    def _prefixed(self, name: str) -> ModelChoice | None:
        prefix, slash, model = name.partition("/")
        if not slash:
            return None
        if prefix not in self._providers:
            raise not_configured(prefix, self._providers)
        if not model:
            raise SetupError(
                "MODEL_NOT_CONFIGURED",
                f"The model {name} has no name after its provider's",
                hint=f"daycare models shows what {prefix} has",
            )
        return ModelChoice(prefix, model, self._number)

    def _in_catalog(self, name: str) -> ModelChoice | None:
        seller = next((source for source in self._sellers(name) if source.chosen), None)
        return ModelChoice(seller.name, name, self._number) if seller is not None else None

    def _sellers(self, name: str) -> list[ProviderSource]:
        """Return the providers of the vendor whose models have names like this."""
        vendor = catalog.vendor_of(name)
        return [source for source in self._providers.values() if vendor and (source.vendor or source.name) == vendor]

    async def _asked(self, name: str) -> ModelChoice:
        asked: list[str] = []
        silent: list[str] = []
        for source in self._providers.values():
            if not source.ready:
                continue
            listing = self._listings[source.name]
            models = listing.known if self._breakers[source.name].away else await listing.get()
            if models and (name in models or f"{name}:latest" in models):
                return ModelChoice(source.name, name, self._number)
            if models:
                asked.append(source.name)
            elif source.chosen:
                silent.append(source.name)
        sellers = self._sellers(name)
        if sellers:
            raise not_configured(sellers[0].name, self._providers)
        if silent:
            raise AwayError(
                "PROVIDER_AWAY",
                f"Looking for the model {name}: {', '.join(silent)} did not tell which models there are",
                hint=f"write PROVIDER/{name}; daycare models shows how the providers are",
                retry_after_s=MODEL_LIST_AGAIN_S,
            )
        raise SetupError(
            "MODEL_UNKNOWN",
            f"Looking for the model {name}: none of {', '.join(asked) or 'the providers'} has it",
            hint=f"write PROVIDER/{name}, or choose one of those that daycare models shows",
        )
