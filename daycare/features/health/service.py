"""`/system/health`: says how the installation is, and tells the operator once when something turns bad for long."""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.base.behaviour import BehaviourContext, BehaviourMessage
from daycare.base.errors import DaycareError
from daycare.base.health import Finding
from daycare.base.ids import new_trace_id
from daycare.base.limits import HEALTH_BAD_S
from daycare.base.messages import Envelope, Origin
from daycare.base.path import Path
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

HEALTH_LOOK_S: Final = 60.0
HEALTH_GOOD_S: Final = 120.0  # that it is good again before that is told, so that what comes and goes is told once
HEALTH_LAG_S: Final = 2.0  # that the loop is late: a person notices that

MENDS: Final[Mapping[str, str]] = {  # the command that helps, or shows more, by what is bad
    "loop": "daycare doctor",
    "disk": "daycare doctor",
    "parts": "daycare restart",
    "models": "daycare models",
    "messages": "daycare agents",
    "connectors": "daycare status",
    "plugins": "daycare plugins list",
    "backup": "daycare backup",
    "config": "daycare config check",
    "upkeep": "daycare gc",
    "dead letters": "daycare dead list",
    "parked agents": "daycare agents",
    "scheduled jobs": "daycare cron list",
    "webhooks": "daycare hooks list",
}
ELSE_MENDS: Final = "daycare doctor"

HEALTH: Final = "/system/health"
_LAGS: Final = round(HEALTH_BAD_S / HEALTH_LOOK_S)  # looks whose lag is remembered
_GOOD: Final = "good"
_BAD: Final = "bad"


class HealthLook(Protocol):
    """Looks at everything; not `whole`: only at what is watched, which costs little."""

    def __call__(self, *, whole: bool) -> Awaitable[list[Finding]]:
        """Return what was found, in the order of a report."""
        ...


class Tell(Protocol):
    """Reaches the operator."""

    def __call__(self, text: str, *, topic: str) -> Awaitable[None]:
        """Tell them `text`."""
        ...


class HealthService:
    """Reports and watches. `tell` reaches the operator.

    Its state has `told`, what the operator was told is bad and when (wall ms), and counts the `changes`: a watch that
    saw something before a crash posts it under the same key after it.
    """

    name = "health"
    description = "Says how the installation is, and tells the operator when something turns bad for long"
    plugin = ""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        router: Router,
        look: HealthLook,
        tell: Tell,
    ) -> None:
        self._store = store
        self._directory = directory
        self._router = router
        self._look = look
        self._tell = tell
        self._bad: dict[str, float] = {}  # since when, by trio's clock
        self._good: dict[str, float] = {}
        self._lags = [0.0]

    @property
    def lag_s(self) -> float:
        """How late the loop was at most in the last minutes."""
        return max(self._lags)

    def problem(self) -> str:
        """Nothing keeps it from working."""
        return ""

    async def look(self, *, whole: bool) -> list[Finding]:
        """Look at everything, or only at what is watched; the loop is watched here."""
        lag = self.lag_s
        text = f"it was {lag:.1f} s late at most"
        loop = Finding(name="loop", ok=lag < HEALTH_LAG_S, text=text, watched=True)
        return [loop, *await self._look(whole=whole)]

    async def report(self) -> list[Finding]:
        """Return how everything is, what is bad with the command that helps."""
        found = await self.look(whole=True)
        return [each if each.ok else replace(each, hint=MENDS.get(each.name, ELSE_MENDS)) for each in found]

    # -- its turns -----------------------------------------------------------------------------------------------------

    async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> str | None:
        """Tell the operator what the watch has seen; answer everybody else with a report."""
        asked = False
        for message in messages:
            if message.origin is Origin.SYSTEM:
                await self._seen(context, message)
            else:
                asked = True
        return told(await self.report()) if asked else None

    async def _seen(self, context: BehaviourContext, message: BehaviourMessage) -> None:
        how, _, rest = message.text.partition(" ")
        name, _, text = rest.partition(": ")
        state = {"told": {}, "changes": 0} | (context.state or {})
        if (name in state["told"]) == (how == _BAD):
            return  # that is known
        if how == _BAD:
            state["told"][name] = message.at_ms
        else:
            del state["told"][name]
        state["changes"] += 1
        words = f"Something is wrong with daycare: {text}. `daycare health` tells more." if how == _BAD else ""
        await self._tell(words or f"Good again: {text}.", topic=f"health:{name}:{how}")
        context.state = state

    # -- the watch -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch until cancelled."""
        await with_retry(partial(self._directory.create, Path.parse(HEALTH, ()), origin=Origin.SYSTEM))
        while True:
            due = trio.current_time() + HEALTH_LOOK_S
            await trio.sleep_until(due)
            self._lags = [*self._lags[-_LAGS:], trio.current_time() - due]
            with suppress(DaycareError):  # the store refuses: nobody could be told now, and the next look sees it
                await self._watch([each for each in await self.look(whole=False) if each.watched])

    async def _watch(self, findings: Sequence[Finding]) -> None:
        now = trio.current_time()
        agent = await self._directory.find(HEALTH)
        kept = await self._store.behaviours.kept(agent.id) if agent is not None else None
        state: Mapping[str, Any] = kept.value() if kept is not None else {}
        known = state.get("told", {})
        for each in findings:
            if each.ok:
                self._bad.pop(each.name, None)
                since = self._good.setdefault(each.name, now)
                if each.name in known and now - since >= HEALTH_GOOD_S:
                    await self._post(_GOOD, each, state)
            else:
                self._good.pop(each.name, None)
                since = self._bad.setdefault(each.name, now)
                if each.name not in known and now - since >= HEALTH_BAD_S:
                    await self._post(_BAD, each, state)

    async def _post(self, how: str, finding: Finding, state: Mapping[str, Any]) -> None:
        message = Envelope(
            to=HEALTH,
            user="system",
            origin=Origin.SYSTEM,
            sender="system",
            key=f"{how}:{finding.name}:{state.get('changes', 0)}",
            text=f"{how} {finding.name}: {finding.text}",
            trace=new_trace_id(),
        )
        await self._router.post(message, self._directory.new(Path.system("health"), origin=Origin.SYSTEM))


def told(findings: Sequence[Finding]) -> str:
    """Return a report in words: what is bad first."""
    bad = [each for each in findings if not each.ok]
    head = "All is well." if not bad else f"{len(bad)} of {len(findings)} need a look."
    lines = [f"- {each.name}: {each.text}" for each in (*bad, *(each for each in findings if each.ok))]
    return "\n".join([head, *lines])
