"""One set of providers and what is known of each, as one reading of config.toml makes it.

Calls that were planned over a set go on with it, while others already use the next one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from daycare.base.errors import DaycareError
from daycare.inference.breaker import Breaker, Permit
from daycare.inference.names import ModelChoice, Names
from daycare.inference.sources import ModelListing, Providers

_LIMITS_MAX: Final = 256  # models that are remembered; then those that are not away are forgotten

OnOutage = Callable[[str, DaycareError | None], None]


class Pass:
    """The permission to make one call: the provider is there, and takes more of this model.

    A `with` block releases it, whatever becomes of the call.
    """

    def __init__(self, provider: Permit, model: Permit) -> None:
        self._provider, self._model = provider, model

    def answered(self) -> None:
        """The first word came."""
        self._provider.answered()
        self._model.answered()

    def failed(self, error: DaycareError) -> None:
        """No word came, because of `error`. Too many calls of one model say nothing of the provider's others."""
        if error.code == "RATE_LIMITED":
            self._provider.answered()
            self._model.failed(error)
        else:
            self._provider.failed(error)

    def __enter__(self) -> "Pass":
        return self

    def __exit__(self, *_: object) -> None:
        self._provider.__exit__()
        self._model.__exit__()


class Providing:
    """The set of that `number`. A provider that `before` had, too, is as away as it was there, and its models known."""

    def __init__(
        self,
        providers: Providers,
        models: Mapping[str, str],
        fallbacks: Sequence[str],
        on_outage: OnOutage,
        number: int = 0,
        before: "Providing | None" = None,
    ) -> None:
        self.providers = dict(providers)
        self._on_outage = on_outage
        self.breakers = {
            name: Breaker(lambda error, name=name: on_outage(name, error))  # type: ignore[misc]
            for name in self.providers
        }
        self.listings = {name: ModelListing(source.provider) for name, source in self.providers.items()}
        self._limits: dict[tuple[str, str], Breaker] = {}  # of models that were refused for being asked too often
        if before is not None:
            same = {name for name, source in self.providers.items() if before.providers.get(name) is source}
            self._limits = {which: it for which, it in before._limits.items() if which[0] in same}
            for name, source in self.providers.items():
                if before.providers.get(name) is source:
                    self.breakers[name], self.listings[name] = before.breakers[name], before.listings[name]
        self.names = Names(self.providers, models, fallbacks, self.listings, self.breakers, number)
        self.models = dict(models)
        self.fallbacks = tuple(fallbacks)
        self.number = number
        self.over_at = float("inf")  # trio's clock: until when plans made of it may be asked for

    def permit(self, choice: ModelChoice) -> "Pass | None":
        """Return the permission to make one call of a choice, None while that is no use. The caller releases it."""
        if self.retry_after_s(choice) > 0:
            return None
        provider, model = self.breakers[choice.provider].permit(), self._limit(choice).permit()
        assert provider is not None and model is not None, "nothing has happened since the look"
        return Pass(provider, model)

    def error(self, choice: ModelChoice) -> DaycareError | None:
        """Return why a choice is away, None while it is not."""
        return self.breakers[choice.provider].error or self._limit(choice).error

    def retry_after_s(self, choice: ModelChoice) -> float:
        """Return in how many seconds asking again may help; 0 if it may now."""
        return max(self.breakers[choice.provider].retry_after_s, self._limit(choice).retry_after_s)

    @property
    def away(self) -> dict[str, str]:
        """The providers, and the models as PROVIDER/MODEL, that are away now, each with why."""
        limits = {"/".join(which): it for which, it in self._limits.items()}
        return {name: it.error.message for name, it in (self.breakers | limits).items() if it.error is not None}

    def _limit(self, choice: ModelChoice) -> Breaker:
        which = choice.provider, choice.model
        if which not in self._limits:
            if len(self._limits) >= _LIMITS_MAX:
                self._limits = {which: it for which, it in self._limits.items() if it.away}
            self._limits[which] = Breaker(lambda error: self._on_outage("/".join(which), error))
        return self._limits[which]

    def gone(self, after: "Providing") -> list[str]:
        """Return the names of those that are not the same ones in the set after this one."""
        return [name for name, source in self.providers.items() if after.providers.get(name) is not source]
