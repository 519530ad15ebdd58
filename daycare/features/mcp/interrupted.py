"""Calls that wait for a person while nobody works on them: those of a daemon that was killed.

What such a call did nobody knows: its turn goes on with just that, and what was asked is no question any more.
"""

from typing import Final

from daycare.base.causes import Answer
from daycare.base.errors import DaycareError
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin, Origins
from daycare.feature import Core
from daycare.features.approvals.service import ApprovalsService
from daycare.features.mcp.rows import WAIT, McpToolRows
from daycare.store.records import Agent
from daycare.store.retry import with_retry

QUESTION: Final = "question"  # the kind of the requests


async def end_interrupted(core: Core, approvals: ApprovalsService) -> None:
    """End what was left open by the run before. Called before any call is made; may be called again."""
    await approvals.withdraw_all(QUESTION, "the daemon was stopped meanwhile")
    for key, agent_id in await core.store.of(McpToolRows).interrupted():
        agent = await core.store.agents.get(agent_id)
        if agent is None:
            continue
        words = "the daemon was interrupted while its server waited for a person; the call was not made again"
        await tell(core, agent, key, "uncertain", words, "", Answer(key, unsure=True), ())


async def tell(
    core: Core, agent: Agent, key: str, sender: str, text: str, trace: str, answer: Answer, origins: Origins
) -> None:
    """Let a turn that was set aside go on with what became of a call: once, whoever says it first."""
    envelope = Envelope(
        to=agent.path,
        agent_id=agent.id,
        user=agent.user,
        origin=Origin.SYSTEM,
        sender=sender,
        key=f"result:{key}",
        text=text,
        trace=trace or key,
        kind=EnvelopeKind.RESULT,
        lane=Lane.CONTROL,
        cause=answer,
        origins=origins,
    )
    try:
        await with_retry(lambda: core.router.post(envelope))
    except DaycareError:
        return  # its agent is dead, or its inbox is full: then it hears that no answer came in time


def wait_of(agent_id: str, turn: int, step: int) -> str:
    """Return the key under which a turn waits for a call."""
    return f"{WAIT}{agent_id}:{turn}:{step}"
