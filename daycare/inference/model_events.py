"""What providers do, told to observers: calls that ended, and outages."""

from daycare.base.clock import Clock
from daycare.base.errors import DaycareError
from daycare.base.events import ModelCalled, ProviderAway
from daycare.base.messages import Usage
from daycare.inference.metering import Bill, Payer
from daycare.inference.names import ModelChoice
from daycare.observe.about import about_row
from daycare.observe.bus import Bus


class ModelEvents:
    """Publishes it."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock

    def called(self, payer: Payer, choice: ModelChoice, took_ms: int, bill: Bill | None, code: str) -> None:
        """Hear of a call of a model that has ended."""
        usage = bill.usage if bill is not None else Usage()
        self._bus.publish(
            ModelCalled(
                **about_row(self._clock, payer),
                provider=choice.provider,
                model=choice.model,
                took_ms=took_ms,
                code=code,
                input_tokens=usage.input_tokens,
                cached_tokens=usage.cached_tokens,
                output_tokens=usage.output_tokens,
                cost_micros=bill.cost_micros if bill is not None else 0,
            )
        )

    def outage(self, provider: str, error: DaycareError | None) -> None:
        """Hear that a provider is away, or with None that it is back."""
        reason = error.message if error else ""
        self._bus.publish(
            ProviderAway(at_ms=self._clock.now_ms(), provider=provider, reason=reason, cleared=error is None)
        )
