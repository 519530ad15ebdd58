"""A connector that pushes, for tests: a carrier pigeon with a script, whose flights are remembered."""

from collections import deque

import trio

from daycare.plugin import Outgoing, Plugin

NAME = "pigeon"


class Pigeon:
    """Delivers what it is given; the next flights are scripted with `enqueue`.

    An entry is a number (seconds that the flight takes), an error to raise instead of arriving, or `LOST`: the reply
    arrives and the receipt never does. `flights` holds every try in order, `arrived` what people got. `slow` maps a
    target to the seconds that each flight there takes.
    """

    name = NAME
    pull = False
    LOST = "lost"

    def __init__(self) -> None:
        self.flights: list[Outgoing] = []
        self.started_at: list[float] = []
        self.arrived: list[Outgoing] = []
        self.slow: dict[str, float] = {}
        self._script: deque[float | BaseException | str] = deque()

    def enqueue(self, *entries: float | BaseException | str) -> None:
        """Add entries to the script."""
        self._script.extend(entries)

    async def send(self, outgoing: Outgoing) -> str:
        """Fly."""
        self.flights.append(outgoing)
        self.started_at.append(trio.current_time())
        await trio.sleep(self.slow.get(outgoing.target, 0.0))
        entry = self._script.popleft() if self._script else 0.0
        if isinstance(entry, BaseException):
            raise entry
        if isinstance(entry, float | int):
            await trio.sleep(float(entry))
        self.arrived.append(outgoing)
        if entry == self.LOST:
            await trio.sleep_forever()
        return f"feather-{len(self.arrived)}"

    def plugin(self) -> Plugin:
        """Return a plugin that offers this very pigeon."""
        return Plugin(name=NAME, connectors={NAME: lambda: self})


def texts(flights: list[Outgoing]) -> list[str]:
    """Return the words of flights."""
    return [flight.text for flight in flights]
