"""The running daemon: that it answers, is of this version, and what it says of its own health."""

from collections.abc import Iterator
from typing import Final

from daycare import __version__
from daycare.base.english import plural
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding

# Of `daycare health`, what looks of their own tell with more.
_TOLD_ELSEWHERE: Final = frozenset(
    {
        "disk",
        "descriptors",
        "models",
        "connectors",
        "plugins",
        "dead letters",
        "scheduled jobs",
        "backup",
        "backups",
        "store",
        "size",
    }
)


def daemon(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether one answers, whether it is this program, and what it says of itself."""
    if context.status is None:
        if context.unheard:
            kill = (
                f"; if it stays so: kill {context.holder.pid}, then daycare run" if context.holder is not None else ""
            )
            yield DoctorFinding("fail", "daemon", context.unheard, f"daycare logs{kill}")
        elif context.holder is not None:
            told = f"{context.holder} has the home and does not answer"
            yield DoctorFinding("fail", "daemon", told, f"daycare logs; if it hangs: kill {context.holder.pid}")
        else:
            yield DoctorFinding("warn", "daemon", "none runs", "daycare run, or daycare service install")
        return
    status = context.status
    yield DoctorFinding("ok", "daemon", f"process {status['pid']} answers")
    if status.get("version") not in (None, __version__):
        told = f"it is version {status['version']}, and the program {__version__}"
        yield DoctorFinding("warn", "daemon", told, "daycare restart")
    if trouble := (status.get("store") or {}).get("trouble"):
        yield DoctorFinding("fail", "store", str(trouble), "daycare status, once that is done")
    for each in (context.health or {}).get("findings", ()):
        if not each["ok"] and each["name"] not in _TOLD_ELSEWHERE:
            yield DoctorFinding("warn", each["name"], each["text"], "daycare health, then daycare logs")


def letters(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Messages that were given up on, and those that nobody has answered yet."""
    count = int((context.status or {}).get("dead_letters") or 0)
    new = 0
    if context.inside is not None:
        count, new = max(count, context.inside.letters), context.inside.new_letters
    if count:
        since = f", {new} new within a day" if new else ""
        told = f"{count} dead {plural('letter', count)} {'wait' if count > 1 else 'waits'} for a decision{since}"
        yield DoctorFinding("warn", "dead", told, "daycare dead list")
    else:
        yield DoctorFinding("ok", "dead", "no dead letters")
    if context.inside is not None and context.inside.dropped:
        whose = ", ".join(f"{many} of {user or 'nobody known'}" for user, many in context.inside.dropped[:3])
        told = f"older dead letters made room for newer ones: {whose}"
        yield DoctorFinding("warn", "dead", told, "daycare dead list; to forget it, daycare dead prune --older-than 1s")
    if context.inside is not None and context.inside.unread and not context.running and context.holder is None:
        told = f"{context.inside.unread} messages wait for a daemon that answers them"
        yield DoctorFinding("warn", "inbox", told, "daycare run")
