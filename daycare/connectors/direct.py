"""The terminal's connector: replies wait in the outbox until a terminal fetches and confirms them."""

from daycare.base.connector import DIRECT
from daycare.base.errors import UnavailableError
from daycare.plugin import BaseConnector, Outgoing, Plugin


class Direct(BaseConnector):
    """A pull connector; nothing is pushed."""

    name = DIRECT
    pull = True
    manner = (
        "Your answers are read in a terminal, or by a program, as plain text: Markdown shows as it is written, so use "
        "little of it. They may be as long as they need to be."
    )

    async def send(self, outgoing: Outgoing) -> str:
        """Refuse: readers fetch."""
        raise UnavailableError("NOT_SENT", f"sending reply {outgoing.outbox}: terminals fetch their replies")


plugin = Plugin(name=DIRECT, connectors={DIRECT: Direct})
