"""Scheduled jobs of OpenClaw: `cron/jobs.json`, and the table that has taken its place."""

from collections.abc import Callable
from typing import Any

from daycare.base.cron import NOBODY
from daycare.base.errors import DaycareError
from daycare.ops.importers.import_model import MAIN, OWNER, ImportedJob, ImportModel
from daycare.ops.importers.schedules import ImportedSchedule, every, expression, interval, once, spec_of
from daycare.ops.importers.source import ImportSource
from daycare.ops.importers.tables import Tables, tree
from daycare.ops.importers.words import at, key_of, moment, slug, text_of

FILE = "cron/jobs.json"


def read(
    source: ImportSource,
    state: Tables | None,
    imported: ImportModel,
    ref: Callable[[str], str],
    whose: dict[str, str],
    zone: str,
) -> None:
    """Put the jobs into the import model; the table counts where both have one."""
    jobs: dict[str, tuple[dict[str, Any], str]] = {}
    listed = source.json(FILE)
    listed = at(listed, "jobs") if isinstance(listed, dict) else listed
    for number, job in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(job, dict):
            jobs[text_of(job.get("id")) or f"#{number + 1}"] = (job, FILE)
    for row in state.rows("cron_jobs", order="sort_order") if state is not None else ():
        job = tree(row.get("job_json"))
        if job:
            on = row.get("enabled", 1)
            jobs[text_of(row.get("job_id"))] = (job | {"enabled": bool(on)}, "state/openclaw.sqlite cron_jobs")
    for number, (job_id, (job, where)) in enumerate(jobs.items()):
        name = text_of(job.get("name")) or f"job {number + 1}"
        try:
            imported.jobs.append(_job(job_id, name, job, f"{where} {job_id[:40]}", ref, whose, zone))
        except (DaycareError, ValueError) as error:
            why = error.message if isinstance(error, DaycareError) else str(error)
            imported.leave(f"the job {name[:80]}", f"{where} {job_id[:40]}", why)


def _job(
    job_id: str,
    name: str,
    job: dict[str, Any],
    where: str,
    ref: Callable[[str], str],
    whose: dict[str, str],
    zone: str,
) -> ImportedJob:
    schedule = _schedule(job.get("schedule"), zone)
    payload = job.get("payload")
    kind = at(payload, "kind")
    if kind not in ("systemEvent", "agentTurn"):
        raise ValueError(f"it runs {kind or 'nothing'}, and here jobs ask an agent")
    prompt = text_of(at(payload, "text")) or text_of(at(payload, "message"))
    notes = []
    if text_of(at(payload, "model")):
        notes.append(f"its own model, {text_of(at(payload, 'model'))[:60]}, is not taken")
    agent = ref(text_of(job.get("agentId")))
    main = job.get("sessionTarget") == "main" or kind == "systemEvent"
    target = agent if main or agent != MAIN else ""
    deliver = ""
    if not main:
        deliver, told = _deliver(job, payload, whose)
        notes += told
    spec, changed = spec_of(
        schedule,
        prompt,
        description=text_of(job.get("description")) or name,
        delete=job.get("deleteAfterRun") is True,
        fresh=not target,
    )
    return ImportedJob(
        ref=job_id,
        person=OWNER,
        name=slug(name, f"job-{slug(job_id)[:8]}", most=40),
        spec=spec,
        paused=job.get("enabled") is False,
        target=target,
        deliver=deliver,
        source=where,
        changes=(*changed, *notes),
    )


def _schedule(tree_: Any, zone: str) -> ImportedSchedule:
    kind = at(tree_, "kind")
    if kind == "at":
        return once(at(tree_, "at") or at(tree_, "atMs"), zone)
    if kind == "every":
        return every(interval(at(tree_, "everyMs"), 1), moment(at(tree_, "anchorMs")), zone)
    if kind == "cron":
        return expression(text_of(at(tree_, "expr")), text_of(at(tree_, "tz")) or zone)
    raise ValueError(f"its schedule is of an unknown kind, {text_of(kind)[:40] or 'none'}")


def _deliver(job: dict[str, Any], payload: Any, whose: dict[str, str]) -> tuple[str, list[str]]:
    """Return the connector key of who gets the answer, `none`, or nothing for the owner's most recent conversation."""
    plan = job.get("delivery")
    if not isinstance(plan, dict):
        wanted = at(payload, "deliver") is True or text_of(at(payload, "to"))
        plan = {"mode": "announce" if wanted else "none", "channel": at(payload, "channel"), "to": at(payload, "to")}
    mode, channel, to = text_of(plan.get("mode")), text_of(plan.get("channel")), text_of(plan.get("to"))
    if mode == "webhook":
        return NOBODY, ["its answers went to a web address; here they stay in its history"]
    if mode != "announce":
        return NOBODY, []
    if not to or channel in ("", "last"):
        return "", []
    key = key_of(channel, to)
    if whose.get(key) == OWNER:
        return key, []
    return "", [f"its answers went to {key or f'{channel} {to[:40]}'}, who is not you; here they come to you"]
