"""All looks, in the order in which they are told, and their rounds: side by side, each with a deadline."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, InvalidError
from daycare.observe.redact import without_secrets
from daycare.ops.doctor.bucket import bucket
from daycare.ops.doctor.clocks import clock, zone
from daycare.ops.doctor.connectors import connectors, sandbox
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.daemon import daemon, letters
from daycare.ops.doctor.database import backup, database
from daycare.ops.doctor.files import files, home, leftovers
from daycare.ops.doctor.finding import DoctorFinding, Look, Mend
from daycare.ops.doctor.hands import hands
from daycare.ops.doctor.jobs import jobs
from daycare.ops.doctor.keys import keys, models
from daycare.ops.doctor.machine import disk, limits
from daycare.ops.doctor.mcp import mcp
from daycare.ops.doctor.memory import copy, embedding
from daycare.ops.doctor.network import network
from daycare.ops.doctor.service import service
from daycare.ops.doctor.settings import config, plugins, speech
from daycare.ops.doctor.versions import versions
from daycare.ops.doctor.voice import voice
from daycare.store.home import HomeLock

CHECK_S: Final = 30.0  # a model's first word takes some seconds, a plugin's health 5
READ_S: Final = 300.0  # a database is read whole: 100 MB take about a second
TELL_S: Final = 0.2  # between two words on how far it is

CHECKS: Final[dict[str, tuple[Look, float]]] = {
    "home": (home, CHECK_S),
    "files": (files, CHECK_S),
    "leftovers": (leftovers, CHECK_S),
    "config": (config, CHECK_S),
    "speech": (speech, CHECK_S),
    "plugins": (plugins, CHECK_S),
    "database": (database, READ_S),
    "backup": (backup, CHECK_S),
    "keys": (keys, CHECK_S),
    "daemon": (daemon, CHECK_S),
    "dead": (letters, CHECK_S),
    "network": (network, CHECK_S),
    "models": (models, CHECK_S),
    "connectors": (connectors, CHECK_S),
    "sandbox": (sandbox, CHECK_S),
    "hands": (hands, CHECK_S),
    "mcp": (mcp, CHECK_S),
    "voice": (voice, CHECK_S),
    "embedding": (embedding, CHECK_S),
    "recall": (copy, CHECK_S),
    "bucket": (bucket, CHECK_S),
    "cron": (jobs, CHECK_S),
    "service": (service, CHECK_S),
    "clock": (clock, CHECK_S),
    "zone": (zone, CHECK_S),
    "disk": (disk, CHECK_S),
    "limits": (limits, CHECK_S),
    "versions": (versions, CHECK_S),
}


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of something that was to be mended: done, or why not."""

    look: str
    what: str
    done: bool
    problem: str = ""


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the looks that are wanted, all if none is named. Raises `InvalidError` LOOK_UNKNOWN."""
    for name in only:
        if name not in CHECKS:
            raise InvalidError("LOOK_UNKNOWN", f"looking at {name}: there is no such look", hint=", ".join(CHECKS))
    return tuple(name for name in CHECKS if not only or name in only)


def examine(
    context: DoctorContext,
    names: Sequence[str] = tuple(CHECKS),
    told: Callable[[list[str]], None] = lambda _: None,
    *,
    looks: dict[str, tuple[Look, float]] = CHECKS,
) -> Iterator[DoctorFinding]:
    """Yield what looks find, in their order. A look that is late or breaks is a finding, and holds up no other.

    `told` is called now and then with the names of those that are not done.
    """
    began = time.monotonic()
    done: queue.SimpleQueue[tuple[str, list[DoctorFinding]]] = queue.SimpleQueue()
    for name in names:
        # A thread that hangs in a call of the system is left alone: it must not keep the program from ending.
        threading.Thread(target=_look, args=(context, name, looks[name][0], done), daemon=True).start()
    found: dict[str, list[DoctorFinding]] = {}
    waiting = list(names)
    for name in names:
        while name not in found:
            left_s = began + looks[name][1] - time.monotonic()
            if left_s <= 0:
                told_late = f"looking at {name} was not done after {looks[name][1]:g} s"
                found[name] = [DoctorFinding("fail", name, told_late, f"daycare doctor --only {name}", look=name)]
                break
            try:
                at, findings = done.get(timeout=min(left_s, TELL_S))
            except queue.Empty:
                told(waiting)
                continue
            found.setdefault(at, findings)
            waiting.remove(at)
        yield from found[name]


def _look(
    context: DoctorContext, name: str, look: Look, done: "queue.SimpleQueue[tuple[str, list[DoctorFinding]]]"
) -> None:
    findings: list[DoctorFinding] = []
    try:
        with error_boundary("LOOK_FAILED", f"looking at {name}"):
            for each in look(context):  # what it found before it broke counts
                findings.append(_shown(each, name))
    except DaycareError as error:
        findings.append(_shown(DoctorFinding("fail", name, error.message, error.hint), name))
    done.put((name, findings))


def _shown(found: DoctorFinding, look: str) -> DoctorFinding:
    return replace(found, look=look, message=without_secrets(found.message), hint=without_secrets(found.hint))


def mend(context: DoctorContext, findings: Sequence[DoctorFinding], now_ms: int, *, dry_run: bool) -> Iterator[Mended]:
    """Do what is safe to do about findings, one after the other, and tell of each; with `dry_run` only tell.

    What needs the home for itself is left where somebody else has it.
    """
    wanted = [(each.look, each.mend) for each in findings if each.mend is not None and each.level != "ok"]
    once: dict[str, tuple[str, Mend]] = {}
    for look, what in wanted:
        once.setdefault(what.what, (look, what))
    for look, what in once.values():
        if dry_run:
            yield Mended(look, what.what, done=False)
            continue
        try:
            with error_boundary("MEND_FAILED", what.what):
                if what.alone:
                    with HomeLock(context.home) as lock:
                        lock.acquire("tool", now_ms)
                        what.do()
                else:
                    what.do()
        except DaycareError as error:
            yield Mended(look, what.what, done=False, problem=error.message)
        else:
            yield Mended(look, what.what, done=True)
