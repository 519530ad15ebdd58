"""Connections with the world outside, as they are: for status, health, metrics and systemd."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from daycare.base.connector import Health
from daycare.base.events import ConnectorHealth, Event
from daycare.base.health import Finding
from daycare.connectors.host import NOTHING_RESTS, Host
from daycare.feature import Feature
from daycare.observe.metrics import Family, Gauge
from daycare.plugins.extensions import Extensions

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

_STATES: Final = ("off", "starting", "up", "away", "stalled", "conflict", "refused", "held")
_ELSEWHERE: Final = Health(state="off", reason="another node is connected")
_FINE: Final = ("up", "off", "starting")  # of a connection: `starting` for long becomes another state


class Connections(Feature):
    """Tells of them."""

    name = "connectors"

    def __init__(
        self,
        host: Host,
        extensions: Extensions,
        restart: Callable[[str], Awaitable[object]],
        here: Callable[[str], bool],
    ) -> None:
        self._host = host
        self._here = here
        self._extensions = extensions
        self._restart = restart
        self._heard: dict[str, Health] = {}  # of connections that are another node's

    def wrong(self) -> Mapping[str, Mapping[str, Any]]:
        """Return those that do not work, by name."""
        return {name: each for name, each in self._states().items() if each["state"] not in _FINE}

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows of each."""
        extensions = self._extensions
        return self._states({} if extensions.runs else extensions.at_rest())

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/connectors` and `/v1/plugins`."""
        from daycare.api.routes_connectors import Connectors
        from daycare.api.routes_plugins import Plugins

        extensions = self._extensions
        connectors, plugins = Connectors(extensions.connectors, self.status), Plugins(extensions.report, self._restart)
        return [*connectors.routes(), *plugins.routes()]

    async def findings(self) -> Sequence[Finding]:
        """Return how connections and plugins are."""
        bad = [f"{name} is {each['state']}: {each.get('reason', '')}" for name, each in self.wrong().items()]
        text = "; ".join(each.rstrip(": ") for each in bad)
        fine = f"{len(self._extensions.connectors)}, all up"
        problems = self._extensions.problems()
        why = "; ".join(f"{name}: {reason}" for name, reason in problems.items())
        all_run = f"{len(self._extensions.plugins)}, all run"
        return (
            Finding(name="connectors", ok=not bad, text=text or fine, watched=True),
            Finding(name="plugins", ok=not problems, text=why or all_run, watched=True),
        )

    async def metric_families(self) -> Sequence[Family]:
        """Return what is measured of them."""
        state = Gauge("daycare_connector_state", "1 for the state a connection is in", ("connector", "state"))
        since = Gauge("daycare_connector_state_since_seconds", "When it came into this state", ("connector",))
        for name, each in self._states().items():
            for one in sorted({*_STATES, each["state"]}):
                state.set(name, one, value=one == each["state"])
            since.set(name, value=each["since"] / 1000)
        return state, since

    def heard(self, event: Event) -> None:
        """Learn from an event of another node how its connections are."""
        if isinstance(event, ConnectorHealth):
            self._heard[event.connector] = Health(state=event.state, reason=event.reason, hint=event.hint)  # type: ignore[arg-type]

    def _states(self, at_rest: Mapping[str, Health] = NOTHING_RESTS) -> dict[str, dict[str, Any]]:
        found = self._host.status(self._extensions.connectors, at_rest)
        if not at_rest:
            for name in self._extensions.elsewhere(self._here):
                health = self._heard.get(name, _ELSEWHERE)
                found[name] = {**msgspec.to_builtins(health), "since": 0}
        return found
