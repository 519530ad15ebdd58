"""What control messages do: chat commands, and the dismissal that ends an agent."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import trio

from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.actors.router import Router
from daycare.agent.commands import CommandAnswer, Commands
from daycare.agent.endings import Endings
from daycare.agent.kinds import route
from daycare.base.causes import Ending
from daycare.base.errors import DaycareError, NotFoundError, StoreAwayError
from daycare.base.limits import STORE_RETRY_S
from daycare.base.messages import Envelope, EnvelopeKind, Origin, dismissal
from daycare.base.path import Kind
from daycare.base.secrecy import without_secrets
from daycare.store.records import Agent, InboxRow, Reply
from daycare.store.sqlite.store import Store

COMMAND_AWAY_S: Final = 120.0  # that a command waits for the store; then who gave it is told, and can give it again


@dataclass(frozen=True)
class Control:
    """Obeys control messages in an agent's lane."""

    store: Store
    directory: Directory
    router: Router
    commands: Commands
    endings: Endings
    connectors: Collection[str]

    async def obey(self, agent: Agent, lane: Activation, row: InboxRow) -> bool:
        """Carry out one control message. False when the agent has died of it."""
        if row.envelope.kind is EnvelopeKind.DISMISS:
            if agent.kind == Kind.TASK:  # what it had is for whoever asked, also while it waits for others
                await self.endings.abandon(agent, lane, "stopped")
            await self._die(agent, row)
            return False
        aside = await self.store.turns.aside(agent.id)
        lane.aside = len(aside) + len(await self.store.agents.children(agent.path, busy=True))
        answer = await self._command(agent, lane, row)
        if answer.stops:
            if lane.turn is not None and (not lane.begun or lane.turn.goes_on):
                await self.endings.stopped(agent, lane, "stopped")
            await self.endings.abandon(agent, lane, "stopped")
            await self._dismiss_helpers(agent, row)
        address = route(agent, row.envelope, self.connectors)
        replies = []
        if address and answer.text:
            said = Reply(
                connector=address[0],
                target=address[1],
                text=answer.text,
                choices=answer.choices,
                files=answer.files,
                shows=answer.shows,
            )
            replies = [said]
        await self.store.inbox.conclude(agent, row, answer.text, replies=replies, new_session=answer.new_session)
        if answer.new_session:
            self.endings.hooks.session_ended(agent, agent.session, answer.new_session)
        return True

    def may_overtake(self, row: InboxRow) -> bool:
        """Return whether a message is a command that needs no pause between two turns."""
        return row.envelope.kind is EnvelopeKind.COMMAND and self.commands.may_overtake(row.envelope.text)

    async def _dismiss_helpers(self, agent: Agent, row: InboxRow) -> None:
        """What an agent is told to stop, its helpers stop as well; nobody waits for a word of theirs any more."""
        for child in await self.store.agents.children(agent.path):
            message = dismissal(
                child.path,
                child.id,
                child.user,
                by=agent.path,
                key=f"stop:{row.seq}",
                reason=f"{agent.path} was stopped",
                trace=row.envelope.trace,
            )
            with suppress(NotFoundError):  # it has died meanwhile
                await self.router.post(message)

    async def _command(self, agent: Agent, lane: Activation, row: InboxRow) -> CommandAnswer:
        """Run a command; one that fails says so and is over, as it would stand before every later message.

        While the store is away it is run again, as after a crash, but not for long.
        """
        until = trio.current_time() + COMMAND_AWAY_S
        while True:
            try:
                return await self.commands.run(agent, lane, row)
            except StoreAwayError as away:
                if trio.current_time() >= until:
                    return CommandAnswer(str(away))
                await trio.sleep(STORE_RETRY_S)
            except DaycareError as error:
                return CommandAnswer(str(error))
            except Exception as error:  # noqa: BLE001 - a plugin's command must not hold up the lane
                what = without_secrets(f"{type(error).__name__}: {error}")
                return CommandAnswer(f"{row.envelope.text.split(maxsplit=1)[0]} failed: {what}")

    async def _die(self, agent: Agent, row: InboxRow) -> None:
        parent = await self.directory.get(agent.parent) if agent.parent else None
        told = parent is not None and row.envelope.sender == parent.path  # it has said so itself
        how = row.envelope.cause if isinstance(row.envelope.cause, Ending) else Ending()
        quiet = told or how.quiet
        if parent is not None and parent.state != "dead" and not quiet:
            await self.router.post(
                Envelope(
                    to=parent.path,
                    agent_id=parent.id,
                    user=agent.user,
                    origin=Origin.AGENT,
                    sender=agent.path,
                    key=f"last-word:{agent.id}:{row.seq}",  # one for each of its lives
                    text=f"{agent.path} has ended: {row.envelope.text or 'dismissed'}",
                    trace=row.envelope.trace,
                    kind=EnvelopeKind.NOTICE,
                    origins=(),  # only daemon and people give a reason here, or a call of a tool that was allowed
                )
            )
        untold = agent.parent if told else how.untold or None
        await self.store.agents.set_state(agent.id, "dead", row.envelope.text or "dismissed", untold=untold)
        self.endings.hooks.session_ended(agent, agent.session, row.envelope.text or "dismissed")
