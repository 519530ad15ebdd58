"""Time: whether the machine's clock can be believed, and whether everybody's time zone is one that is known."""

import ctypes
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from daycare.base.durations import duration
from daycare.base.errors import InvalidError
from daycare.base.times import when
from daycare.base.zones import INSTALL, zone_of
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding
from daycare.ops.setup import local_zone

BEHIND_S: Final = 5.0  # rows are written in the daemon's process, by the same clock
JUMP_WARN_S: Final = 30.0
_SYNCED: Final = "timedatectl set-ntp true"
_TIME_ERROR: Final = 5  # what adjtimex returns while nobody keeps the clock right
_TIMEX_BYTES: Final = 512  # of which the kernel fills 208


def clock(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Not before what was written already, no jump since the daemon has started, and whether NTP keeps it right.

    A clock that is right is no trouble, whoever keeps it so: in a container, or beside a host that sets it, the kernel
    knows nothing of that.
    """
    trouble = False
    inside = context.inside
    behind_s = (inside.newest_at - context.now_ms) / 1000 if inside is not None else 0.0
    if inside is not None and behind_s > BEHIND_S:
        trouble = True
        told = f"it is {when(context.now_ms)}, {duration(behind_s)} before the newest row of {inside.newest_in}"
        yield DoctorFinding("fail", "clock", f"{told}: it was set back", _SYNCED)
    jump_s = _jump_s(context)
    if abs(jump_s) > JUMP_WARN_S:
        trouble = True
        way = "ahead" if jump_s > 0 else "back"
        told = f"it was set {way} by {duration(abs(jump_s))} since the daemon has started"
        yield DoctorFinding("warn", "clock", told, f"daycare cron list, and {_SYNCED}")
    if not trouble:
        kept = f", and the kernel knows of nothing that keeps it right (NTP): {_SYNCED}" if _unsynchronised() else ""
        yield DoctorFinding("ok", "clock", f"{when(context.now_ms)}{kept}")


def zone(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The database of time zones, and the zones of people."""
    try:
        ZoneInfo("Europe/Berlin")
        known = len(available_timezones())
    except (ZoneInfoNotFoundError, OSError):
        yield DoctorFinding("fail", "zone", "there is no database of time zones", INSTALL)
        return
    here = local_zone()
    inside = context.inside
    people = dict(inside.zones) if inside is not None else {}
    unknown = [(user, name) for user, name in people.items() if not _known(name)]
    for user, name in unknown:
        told = f"{user} lives in {name!a}, which is unknown: their jobs do not run"
        yield DoctorFinding("fail", "zone", told, f"{INSTALL}, or give them another zone: daycare users")
    own = people.get(inside.owner) if inside is not None else None
    if own is not None and _known(own) and _differs(own, here):
        told = f"yours is {own}, the machine's is {here}: jobs and days go by yours, the log by UTC"
        yield DoctorFinding("ok", "zone", told)
    elif not unknown:
        yield DoctorFinding("ok", "zone", f"{own or here}; {known} are known")


def _known(name: str) -> bool:
    try:
        zone_of(name)
    except InvalidError:
        return False
    return True


def _differs(one: str, other: str) -> bool:
    """Whether two zones have different times within a year: some have two names."""
    now = datetime.now(UTC)
    moments = [now + timedelta(days=30 * month) for month in range(12)]
    return any(at.astimezone(ZoneInfo(one)).utcoffset() != at.astimezone(ZoneInfo(other)).utcoffset() for at in moments)


def _unsynchronised() -> bool:
    """Ask the kernel whether somebody keeps the clock right; in doubt somebody does."""
    state = ctypes.create_string_buffer(_TIMEX_BYTES)  # its first field, 0, says that nothing is to be set
    try:
        return bool(ctypes.CDLL(None, use_errno=True).adjtimex(state) == _TIME_ERROR)
    except (OSError, AttributeError):
        return False


def _jump_s(context: DoctorContext) -> float:
    """Return by how much the clock was set since the daemon has started: its age by two clocks, one never set."""
    if context.status is None:
        return 0.0
    process = Path(f"/proc/{int(context.status['pid'])}")
    try:
        if b"daycare" not in process.joinpath("cmdline").read_bytes():
            return 0.0  # the number of another namespace
        told = process.joinpath("stat").read_text()
        ticks = int(told.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    started_s = context.status["started_at"] / 1000
    by_wall_s = context.now_ms / 1000 - started_s
    # A restart keeps the process, so it may be older than what it runs; and what it runs is never older than it.
    return by_wall_s - age_s if by_wall_s > age_s or by_wall_s < 0 else 0.0
