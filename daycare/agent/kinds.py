"""What the kind of an agent and the origin of a message decide: how it reads, and where an answer goes."""

from collections.abc import Collection

from daycare.base.messages import NOT_THE_USER, REMINDER, Envelope, EnvelopeKind, Message, Origin, Text
from daycare.base.path import Kind
from daycare.store.records import Agent, InboxRow

_PEOPLE = (Origin.PERSON, Origin.GROUP, Origin.FORWARD, Origin.FILE)


def sender_connector(envelope: Envelope, connectors: Collection[str]) -> str | None:
    """Return the connector that a message came by, or None when no person sent it."""
    name, colon, _ = envelope.sender.partition(":")
    return name if colon and name in connectors else None


def route(agent: Agent, envelope: Envelope, connectors: Collection[str]) -> tuple[str, str | None] | None:
    """Return (connector, target) for the answer to a message; None when it is kept as the message's result only.

    A person's message is answered where it came from. What came by itself (a reminder, a notice, a result) reaches the
    person through the agent's own connector. Another agent reads the result if it waits for one.
    """
    came_by = sender_connector(envelope, connectors)
    if came_by is not None:
        return came_by, envelope.reply_target
    if agent.kind == Kind.CONNECTOR and not envelope.chain and envelope.origin not in _PEOPLE:
        name = agent.path.rsplit("/", 1)[-1]
        return (name, None) if name in connectors else None
    return None


def message_of(row: InboxRow) -> Message:
    """Return one row as a message. Whatever no person said is introduced, so that it is not taken for their words."""
    envelope = row.envelope
    text = envelope.text
    if envelope.origin is Origin.TIMER:
        text = REMINDER + text
    elif envelope.kind is EnvelopeKind.NOTICE or envelope.origin not in _PEOPLE:
        text = f"{NOT_THE_USER}{envelope.sender} (not from the user):\n{text}"
    return Message("user", (Text(text), *envelope.files), row.created_at, envelope.origin, envelope.sender)
