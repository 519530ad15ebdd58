"""Identifiers: CUID2 for what is rare and named outside, random hex for trace ids that come by the thousand."""

import secrets


def new_agent_id() -> str:
    """Return a fresh CUID2 (24 lowercase letters and digits); costs about 70 us, so only for agents."""
    from cuid2 import create_id  # imported late: it costs 40 ms, and most commands create no agent

    return create_id()


def new_trace_id() -> str:
    """Return 16 hex digits that join an inbound message, its turn, tool calls and replies."""
    return secrets.token_hex(8)
