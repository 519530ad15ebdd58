"""What a job would be, told while somebody still types it: when it is due, in words, and what is wrong where."""

import re
from itertools import islice
from typing import Any, Final

import msgspec

from daycare.base import crontab
from daycare.base.cron import CronSpec
from daycare.base.errors import DaycareError, InvalidError
from daycare.base.path import Path
from daycare.base.zones import zone_of
from daycare.features.cron.jobs import CronControls, check_addresses
from daycare.features.cron.model import CronFieldProblem, CronPreview, PreviewJob

_FIELD: Final = re.compile(r"`(?:\$\.)?(\w++)[^`]*+`$")  # at the end of what msgspec says
_BY_CODE: Final = {"CRON_EXPRESSION": "cron", "TIME_INVALID": "at", "ZONE_UNKNOWN": "zone", "PATH_INVALID": "task"}
_NAMES: Final = tuple(field.name for field in msgspec.structs.fields(CronSpec))


async def preview(controls: CronControls, wish: PreviewJob, user: str) -> CronPreview:
    """Return what a job of a user would be. Raises `NotFoundError` for a user that there is not."""
    zone = await controls.zone(user)
    problems: dict[str, CronFieldProblem] = {}
    if wish.id:
        try:
            taken = await controls.rows.at(str(Path.cron(user, wish.id)))
        except DaycareError as error:
            problems["id"] = _problem("id", error)
        else:
            if taken is not None:
                problems["id"] = CronFieldProblem(
                    "id", f"{user} has a job of this name", f"daycare cron show {wish.id}"
                )
    spec = _read(wish.spec, problems)
    for name in ("target", "deliver"):
        try:
            only = CronSpec(**{name: getattr(spec, name)})
            check_addresses(controls.directory, only, user)
            if only.target:
                await controls.directory.at(only.target)
        except DaycareError as error:
            problems[name] = _problem(name, error)
    here = zone_of(spec.zone or zone)
    times = [*islice(spec.times(zone, controls.clock.now_ms()), wish.count)] if spec.cron or spec.at else []
    if spec.at and not times:
        problems["at"] = CronFieldProblem("at", "that is over", "choose a later time")
    return CronPreview(
        zone=here.key,
        words=crontab.words(spec.cron) if spec.cron else "once" if spec.at else "",
        next=tuple(crontab.local(at, here) for at in times),
        next_at=tuple(times),
        problems=tuple(problems.values()),
    )


def _read(given: dict[str, Any], problems: dict[str, CronFieldProblem]) -> CronSpec:
    """Return a job of those fields that are right, each wrong one as by default; `problems` are told by field."""
    fields = {name: value for name, value in given.items() if value is not None}
    typing = {} if str(fields.get("prompt", "")).strip() else {"prompt": "..."}
    while True:
        try:
            spec = msgspec.convert(fields | typing, CronSpec, strict=False)  # a form has words only
            return spec.checked() if spec.cron or spec.at else spec
        except msgspec.ValidationError as error:
            found = _FIELD.search(str(error))
            problem = CronFieldProblem(found[1] if found else "", str(error))
        except InvalidError as error:
            problem = _problem("", error)
        problems.setdefault(problem.field, problem)
        if fields.pop(problem.field, None) is None:
            return CronSpec()


def _problem(field: str, error: DaycareError) -> CronFieldProblem:
    first = error.message.partition(" ")[0]
    named = field or _BY_CODE.get(error.code, first if first in _NAMES else "")
    return CronFieldProblem(named, error.message, error.hint)
