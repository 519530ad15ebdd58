"""A connector that pushes, for tests: it follows a script, and what it was given to send is remembered."""

from collections import deque
from dataclasses import dataclass

import trio

from daycare.plugin import BaseConnector, Capabilities, Outgoing, Plugin

NAME = "pigeon"


@dataclass(frozen=True)
class ShownInChat:
    """Something that was shown in a chat: `call` is `act`, `draft`, `status`, `edit` or `withdraw`."""

    at: float
    call: str
    target: str
    text: str = ""
    receipt: str = ""
    number: int = 0


class FakeConnector(BaseConnector):
    """Delivers what it is given; the next flights are scripted with `enqueue`.

    An entry is a number (seconds that the flight takes), an error to raise instead of arriving, or `LOST`: the reply
    arrives and the receipt never does. `flights` holds every try in order, `arrived` what people got. `slow` maps a
    target to the seconds that each flight there takes.

    It can show what `able` says, by target; `anywhere` is what it can do elsewhere. `shown` holds every try in order,
    `standing` the lines that people see now, by receipt. `upset` scripts the next tries of one call as `enqueue` does.
    """

    name = NAME
    pull = False
    LOST = "lost"

    def __init__(self, anywhere: Capabilities | None = None) -> None:
        self.flights: list[Outgoing] = []
        self.started_at: list[float] = []
        self.arrived: list[Outgoing] = []
        self.slow: dict[str, float] = {}
        self.anywhere = anywhere or Capabilities()
        self.able: dict[str, Capabilities] = {}
        self.shown: list[ShownInChat] = []
        self.standing: dict[str, str] = {}
        self._script: deque[float | BaseException | str] = deque()
        self._upsets: dict[str, deque[float | BaseException | str]] = {}

    def enqueue(self, *entries: float | BaseException | str) -> None:
        """Add entries to the script."""
        self._script.extend(entries)

    def upset(self, call: str, *entries: float | BaseException | str) -> None:
        """Add entries to the script of `act`, `draft`, `status`, `edit` or `withdraw`."""
        self._upsets.setdefault(call, deque()).extend(entries)

    async def send(self, outgoing: Outgoing) -> str:
        """Fly."""
        self.flights.append(outgoing)
        self.started_at.append(trio.current_time())
        await trio.sleep(self.slow.get(outgoing.target, 0.0))
        lost = await _play(self._script)
        self.arrived.append(outgoing)
        if lost:
            await trio.sleep_forever()
        return f"feather-{len(self.arrived)}"

    def capabilities(self, target: str) -> Capabilities:
        """Return what the script says."""
        return self.able.get(target, self.anywhere)

    async def act(self, target: str, action: str) -> None:
        """Flutter."""
        await self._show(ShownInChat(trio.current_time(), "act", target, action))

    async def draft(self, target: str, number: int, text: str) -> None:
        """Hold up a sheet."""
        await self._show(ShownInChat(trio.current_time(), "draft", target, text, number=number))

    async def status(self, target: str, text: str) -> str:
        """Drop a line."""
        receipt = f"line-{sum(shown.call == 'status' for shown in self.shown) + 1}"
        await self._show(ShownInChat(trio.current_time(), "status", target, text, receipt))
        return receipt

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Write over a line."""
        await self._show(ShownInChat(trio.current_time(), "edit", target, text, receipt))

    async def withdraw(self, target: str, receipt: str) -> None:
        """Fetch a line back."""
        await self._show(ShownInChat(trio.current_time(), "withdraw", target, "", receipt))

    async def _show(self, shown: ShownInChat) -> None:
        self.shown.append(shown)
        lost = await _play(self._upsets.get(shown.call, deque()))
        if shown.call == "status" or shown.receipt in self.standing:
            self.standing[shown.receipt] = shown.text
        if shown.call == "withdraw":
            self.standing.pop(shown.receipt, None)
        if lost:
            await trio.sleep_forever()

    def plugin(self) -> Plugin:
        """Return a plugin that offers this very connector."""
        return Plugin(name=NAME, connectors={NAME: lambda: self})


async def _play(script: deque[float | BaseException | str]) -> bool:
    """Do what the next entry says. Returns whether nobody is to hear of it."""
    entry = script.popleft() if script else 0.0
    if isinstance(entry, BaseException):
        raise entry
    await trio.sleep(entry if isinstance(entry, float | int) else 0.0)
    return entry == FakeConnector.LOST


def texts(flights: list[Outgoing]) -> list[str]:
    """Return the words of flights."""
    return [flight.text for flight in flights]
