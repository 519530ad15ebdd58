"""Events of trouble within the daemon itself: the disk, its own parts, and rows that it cannot work with."""

from daycare.base.event import Event


class LaneBroke(Event, frozen=True, kw_only=True, tag="lane.broke"):
    """An agent's lane failed outside of a turn, which is a defect; it starts anew after a while."""

    reason: str


class PartCrashed(Event, frozen=True, kw_only=True, tag="part.crashed"):
    """A background part of the daemon crashed, which is a defect; it is started again in `retry_in_s` seconds.

    `alert` marks the first crash after the part ran steadily: the operator is told of that one.
    """

    part: str
    reason: str
    retry_in_s: float
    alert: bool = False


class DiskTrouble(Event, frozen=True, kw_only=True, tag="store.trouble"):
    """A commit failed (disk full, I/O error); nothing was acknowledged. `cleared` marks the recovery."""

    reason: str
    cleared: bool = False


class RowSetAside(Event, frozen=True, kw_only=True, tag="row.set_aside"):
    """A background part met something that it cannot work with, which is a defect; it left it and went on."""

    part: str
    what: str
    reason: str
