"""What every event has. The events themselves are in `events`."""

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Base: wall time in ms, and what joins it to the rest (`trace`), empty where it does not apply."""

    at_ms: int
    path: str = ""
    user: str = ""
    agent_id: str = ""
    trace: str = ""
