"""One set of providers and what is known of each, as one reading of config.toml makes it.

Calls that were planned over a set go on with it, while others already use the next one.
"""

from collections.abc import Callable, Mapping, Sequence

from daycare.base.errors import DaycareError
from daycare.inference.breaker import Breaker
from daycare.inference.names import Names
from daycare.inference.sources import Listing, Providers

OnOutage = Callable[[str, DaycareError | None], None]


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
        self.breakers = {
            name: Breaker(lambda error, name=name: on_outage(name, error))  # type: ignore[misc]
            for name in self.providers
        }
        self.listings = {name: Listing(source.provider) for name, source in self.providers.items()}
        if before is not None:
            for name, source in self.providers.items():
                if before.providers.get(name) is source:
                    self.breakers[name], self.listings[name] = before.breakers[name], before.listings[name]
        self.names = Names(self.providers, models, fallbacks, self.listings, self.breakers, number)
        self.models = dict(models)
        self.fallbacks = tuple(fallbacks)
        self.number = number
        self.over_at = float("inf")  # trio's clock: until when plans made of it may be asked for

    def gone(self, after: "Providing") -> list[str]:
        """Return the names of those that are not the same ones in the set after this one."""
        return [name for name, source in self.providers.items() if after.providers.get(name) is not source]
