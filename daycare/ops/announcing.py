"""What became true is told: to the parts of the daemon that keep it in memory, and to whoever watches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from daycare.base.errors import DaycareError
from daycare.base.events import DeadLettered, DiskTrouble, ModelCalled, ProviderAway
from daycare.base.messages import Usage
from daycare.inference.metering import Bill, Payer
from daycare.inference.names import Choice
from daycare.observe.about import about_row
from daycare.store.records import Commit

if TYPE_CHECKING:
    from daycare.daemon import Daemon


class Announcer:
    """Hears of commits, of a store that refuses them and of providers that are away; `trouble` is why it refuses."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self.trouble: str | None = None

    def committed(self, commit: Commit) -> None:
        """Tell everyone what a commit made true: the one place where durable facts enter memory."""
        # The writer calls this: what is raised here would end the store.
        keeper = self._daemon.keeper
        keeper.guard("waking agents", partial(self._wake, commit))
        keeper.guard("announcing commits", partial(self._tell, commit))

    def _wake(self, commit: Commit) -> None:
        """Let those know who wait for it and would not look by themselves."""
        daemon = self._daemon
        if commit.agents:
            daemon.directory.forget(commit.agents)
            daemon.prompts.forget()
        for agent_id in commit.cut_off:
            if (lane := daemon.supervisor.awake.get(agent_id)) is not None:
                lane.cut_off()
        if commit.secrets or commit.agents:
            daemon.supervisor.failures.changed(None if commit.secrets else commit.agents)
        if commit.people:
            daemon.budgets.forget()
        if commit.forgotten or commit.people:
            daemon.contexts.conversations.forget()
            daemon.provenance.readings.forget()
        if commit.posted:
            daemon.supervisor.posted(commit.posted)
        if commit.completed:
            daemon.router.completed(commit.completed)
        if commit.connectors:
            daemon.courier.wake(commit.connectors)
        if commit.timers:
            daemon.timers.worker.wake()

    def _tell(self, commit: Commit) -> None:
        """Let those know who look by themselves, too, but later."""
        daemon = self._daemon
        for feature in daemon.features:
            feature.committed(commit)
        if commit.budgets:
            daemon.budgets.settled()
        for letter in commit.dead:
            about = about_row(daemon.clock, letter)
            daemon.bus.publish(
                DeadLettered(**about, no=letter.no, source=letter.source, code=letter.code, reason=letter.reason)
            )

    def troubled(self, error: DaycareError | None) -> None:
        """Hear that the store refuses what is written, or with None that it takes it again."""
        if error is not None:
            self._daemon.alarm.heed(error)
        before, self.trouble = self.trouble, str(error) if error else None
        if before == self.trouble:
            return  # still the same: said once
        self._daemon.bus.publish(
            DiskTrouble(at_ms=self._daemon.clock.now_ms(), reason=error.message if error else "", cleared=error is None)
        )

    def called(self, payer: Payer, choice: Choice, took_ms: int, bill: Bill | None, code: str) -> None:
        """Hear of a call of a model that has ended."""
        usage = bill.usage if bill is not None else Usage()
        self._daemon.bus.publish(
            ModelCalled(
                **about_row(self._daemon.clock, payer),
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
        self._daemon.bus.publish(
            ProviderAway(at_ms=self._daemon.clock.now_ms(), provider=provider, reason=reason, cleared=error is None)
        )
