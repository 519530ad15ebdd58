"""What the owner has written: the configuration, personalities, and which plugins take part."""

from collections.abc import Iterator
from typing import Final

from daycare.agent.personality import Personalities
from daycare.base.errors import DaycareError
from daycare.config import check
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding
from daycare.plugins import extensions

_AGAIN: Final = "correct it, then: daycare config reload"


def config(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The configuration file, each problem with its line."""
    problems = check(context.home.path)
    for problem in problems:
        yield DoctorFinding("fail", "config", str(problem), "daycare config check")
    taken = (context.status or {}).get("config") or {}
    if taken.get("refused") and not problems:
        yield DoctorFinding(
            "fail", "config", f"the daemon refused it and keeps the last good one: {taken['refused']}", _AGAIN
        )
    elif taken.get("pending"):
        waiting = ", ".join(map(str, taken["pending"]))
        yield DoctorFinding("warn", "config", f"changed, and not yet in force: {waiting}", "daycare restart")
    elif not problems:
        yield DoctorFinding("ok", "config", f"{context.home.config}, no problem found")


def speech(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The personality that is chosen, and those of the owner's."""
    known = Personalities(context.home.personalities)
    for name in sorted({context.config.agent.personality, *filter(known.is_own, known.names())}):
        try:
            known.get(name)
        except DaycareError as error:
            yield DoctorFinding("warn", "speech", error.message.replace("\n", "; "), error.hint)


def plugins(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Ask the daemon, or, without one, import plugins and read their settings."""
    if context.running:
        told = context.ask("GET", "/v1/plugins")["plugins"]
        wrong = [(each["name"], each["problem"], each["hint"]) for each in told if each["problem"]]
        count = len(told)
    elif context.readable:
        found = extensions.look(context.config, context.home.path)
        wrong = [(one.name, one.problem.message, one.problem.hint) for one in found if one.problem is not None]
        count = len(found)
    else:
        return
    for name, problem, hint in wrong:
        yield DoctorFinding("warn", "plugins", f"{name}: {problem}", hint or "daycare plugins list")
    if not wrong:
        yield DoctorFinding("ok", "plugins", f"{count}, none left out")
