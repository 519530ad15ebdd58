"""Stopping the running turn of an agent, for programs."""

import secrets

from daycare.api.callers import Caller
from daycare.api.routes_agents import agent_at
from daycare.api.services import Services
from daycare.base.connector import DIRECT
from daycare.base.ids import new_trace_id
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin
from daycare.store.records import Receipt


async def stop_turn(services: Services, caller: Caller, path: str) -> Receipt:
    """Ask the agent at `path` to stop; the confirmation is a reply. Raises `NotFoundError`, also for another's."""
    caller.check_path(path)
    agent = await agent_at(services, path)
    return await services.router.post(
        Envelope(
            to=agent.path,
            agent_id=agent.id,
            user=agent.user,
            origin=Origin.PERSON,
            sender=f"{DIRECT}:{caller.user or services.owner}",
            key=fresh_key(),
            text="/stop",
            trace=new_trace_id(),
            kind=EnvelopeKind.COMMAND,
            lane=Lane.CONTROL,
        )
    )


def fresh_key() -> str:
    """Return a key for a message whose sender names none."""
    return f"api:{secrets.token_hex(12)}"
