"""The running daemon: that it answers, is of this version, and what it says of its own health."""

from collections.abc import Iterator
from typing import Final

from daycare import __version__
from daycare.base.english import plural
from daycare.ops.doctor.finding import Finding
from daycare.ops.doctor.scene import Scene

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


def daemon(scene: Scene) -> Iterator[Finding]:
    """Whether one answers, whether it is this program, and what it says of itself."""
    if scene.status is None:
        if scene.unheard:
            kill = f"; if it stays so: kill {scene.holder.pid}, then daycare run" if scene.holder is not None else ""
            yield Finding("fail", "daemon", scene.unheard, f"daycare logs{kill}")
        elif scene.holder is not None:
            told = f"{scene.holder} has the home and does not answer"
            yield Finding("fail", "daemon", told, f"daycare logs; if it hangs: kill {scene.holder.pid}")
        else:
            yield Finding("warn", "daemon", "none runs", "daycare run, or daycare service install")
        return
    status = scene.status
    yield Finding("ok", "daemon", f"process {status['pid']} answers")
    if status.get("version") not in (None, __version__):
        told = f"it is version {status['version']}, and the program {__version__}"
        yield Finding("warn", "daemon", told, "daycare restart")
    if trouble := (status.get("store") or {}).get("trouble"):
        yield Finding("fail", "store", str(trouble), "daycare status, once that is done")
    for each in (scene.health or {}).get("findings", ()):
        if not each["ok"] and each["name"] not in _TOLD_ELSEWHERE:
            yield Finding("warn", each["name"], each["text"], "daycare health, then daycare logs")


def letters(scene: Scene) -> Iterator[Finding]:
    """Messages that were given up on, and those that nobody has answered yet."""
    count = int((scene.status or {}).get("dead_letters") or 0)
    new = 0
    if scene.inside is not None:
        count, new = max(count, scene.inside.letters), scene.inside.new_letters
    if count:
        since = f", {new} new within a day" if new else ""
        told = f"{count} dead {plural('letter', count)} {'wait' if count > 1 else 'waits'} for a decision{since}"
        yield Finding("warn", "dead", told, "daycare dead list")
    else:
        yield Finding("ok", "dead", "no dead letters")
    if scene.inside is not None and scene.inside.dropped:
        whose = ", ".join(f"{many} of {user or 'nobody known'}" for user, many in scene.inside.dropped[:3])
        told = f"older dead letters made room for newer ones: {whose}"
        yield Finding("warn", "dead", told, "daycare dead list; to forget it, daycare dead prune --older-than 1s")
    if scene.inside is not None and scene.inside.unread and not scene.running and scene.holder is None:
        told = f"{scene.inside.unread} messages wait for a daemon that answers them"
        yield Finding("warn", "inbox", told, "daycare run")
