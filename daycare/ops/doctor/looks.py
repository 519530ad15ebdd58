"""All looks, in the order in which they are told, and their rounds: side by side, each with a deadline."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from daycare.base.blame import blamed
from daycare.base.errors import DaycareError, InvalidError
from daycare.observe.redact import without_secrets
from daycare.ops.doctor.clocks import clock, zone
from daycare.ops.doctor.connectors import connectors, sandbox
from daycare.ops.doctor.daemon import daemon, letters
from daycare.ops.doctor.database import backup, database
from daycare.ops.doctor.files import files, home, leftovers
from daycare.ops.doctor.finding import Finding, Look, Mend
from daycare.ops.doctor.jobs import jobs
from daycare.ops.doctor.keys import keys, models
from daycare.ops.doctor.machine import disk, limits
from daycare.ops.doctor.memory import embedding
from daycare.ops.doctor.scene import Scene
from daycare.ops.doctor.service import service
from daycare.ops.doctor.settings import config, plugins, speech
from daycare.ops.doctor.versions import versions
from daycare.store.home import HomeLock

LOOK_S: Final = 30.0  # a model's first word takes some seconds, a plugin's health 5
READ_S: Final = 300.0  # a database is read whole: 100 MB take about a second
TELL_S: Final = 0.2  # between two words on how far it is

LOOKS: Final[dict[str, tuple[Look, float]]] = {
    "home": (home, LOOK_S),
    "files": (files, LOOK_S),
    "leftovers": (leftovers, LOOK_S),
    "config": (config, LOOK_S),
    "speech": (speech, LOOK_S),
    "plugins": (plugins, LOOK_S),
    "database": (database, READ_S),
    "backup": (backup, LOOK_S),
    "keys": (keys, LOOK_S),
    "daemon": (daemon, LOOK_S),
    "dead": (letters, LOOK_S),
    "models": (models, LOOK_S),
    "connectors": (connectors, LOOK_S),
    "sandbox": (sandbox, LOOK_S),
    "embedding": (embedding, LOOK_S),
    "cron": (jobs, LOOK_S),
    "service": (service, LOOK_S),
    "clock": (clock, LOOK_S),
    "zone": (zone, LOOK_S),
    "disk": (disk, LOOK_S),
    "limits": (limits, LOOK_S),
    "versions": (versions, LOOK_S),
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
        if name not in LOOKS:
            raise InvalidError("LOOK_UNKNOWN", f"looking at {name}: there is no such look", hint=", ".join(LOOKS))
    return tuple(name for name in LOOKS if not only or name in only)


def examine(
    scene: Scene,
    names: Sequence[str] = tuple(LOOKS),
    told: Callable[[list[str]], None] = lambda _: None,
    *,
    looks: dict[str, tuple[Look, float]] = LOOKS,
) -> Iterator[Finding]:
    """Yield what looks find, in their order. A look that is late or breaks is a finding, and holds up no other.

    `told` is called now and then with the names of those that are not done.
    """
    began = time.monotonic()
    done: queue.SimpleQueue[tuple[str, list[Finding]]] = queue.SimpleQueue()
    for name in names:
        # A thread that hangs in a call of the system is left alone: it must not keep the program from ending.
        threading.Thread(target=_look, args=(scene, name, looks[name][0], done), daemon=True).start()
    found: dict[str, list[Finding]] = {}
    waiting = list(names)
    for name in names:
        while name not in found:
            left_s = began + looks[name][1] - time.monotonic()
            if left_s <= 0:
                told_late = f"looking at {name} was not done after {looks[name][1]:g} s"
                found[name] = [Finding("fail", name, told_late, f"daycare doctor --only {name}", look=name)]
                break
            try:
                at, findings = done.get(timeout=min(left_s, TELL_S))
            except queue.Empty:
                told(waiting)
                continue
            found.setdefault(at, findings)
            waiting.remove(at)
        yield from found[name]


def _look(scene: Scene, name: str, look: Look, done: "queue.SimpleQueue[tuple[str, list[Finding]]]") -> None:
    findings: list[Finding] = []
    try:
        with blamed("LOOK_FAILED", f"looking at {name}"):
            for each in look(scene):  # what it found before it broke counts
                findings.append(_shown(each, name))
    except DaycareError as error:
        findings.append(_shown(Finding("fail", name, error.message, error.hint), name))
    done.put((name, findings))


def _shown(found: Finding, look: str) -> Finding:
    return replace(found, look=look, message=without_secrets(found.message), hint=without_secrets(found.hint))


def mend(scene: Scene, findings: Sequence[Finding], now_ms: int, *, dry_run: bool) -> Iterator[Mended]:
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
            with blamed("MEND_FAILED", what.what):
                if what.alone:
                    with HomeLock(scene.home) as lock:
                        lock.acquire("tool", now_ms)
                        what.do()
                else:
                    what.do()
        except DaycareError as error:
            yield Mended(look, what.what, done=False, problem=error.message)
        else:
            yield Mended(look, what.what, done=True)
