"""Scheduled jobs over HTTP."""

from tests.api.conftest import Api, Json

SPEC: Json = {"cron": "30 7 * * *", "prompt": "look"}
PATH = "/ann/cron/look"


async def test_a_job_is_added_shown_changed_and_removed(api: Api) -> None:
    made = await api.call("POST", "/v1/cron", {"id": "look", "spec": SPEC}, status=201)
    assert (made["id"], made["path"], made["source"], made["paused"]) == ("look", PATH, "cli", False)
    assert len(made["next"]) == 5 and made["next"][0].endswith("T07:30:00+00:00")
    assert (await api.call("GET", "/v1/cron/job", path="look"))["no"] == made["no"]
    changed = await api.call("PATCH", "/v1/cron/job", {"cron": None, "at": "2099-01-01T00:00", "retry": 2}, path=PATH)
    assert changed["spec"] == {"at": "2099-01-01T00:00", "prompt": "look", "retry": 2}
    assert changed["next"] == ["2099-01-01T00:00:00+00:00"]
    found = await api.call("GET", "/v1/cron", user="ann")
    assert [job["path"] for job in found["jobs"]] == [PATH] and found["problems"] == []
    assert await api.call("DELETE", "/v1/cron/job", path=PATH) == {"removed": PATH}
    await api.refused(404, "CRON_UNKNOWN", "GET", "/v1/cron/job", path=PATH)


async def test_a_job_is_paused_resumed_and_run(api: Api) -> None:
    await api.call("POST", "/v1/cron", {"id": "look", "spec": SPEC | {"parameters": {"a": 1}}}, status=201)
    paused = await api.call("POST", "/v1/cron/pause", path=PATH)
    assert paused["paused"] and paused["next"] == []
    assert not (await api.call("POST", "/v1/cron/resume", path=PATH))["paused"]
    run = await api.call("POST", "/v1/cron/run", {"parameters": {"a": 2}}, status=202, path=PATH)
    [entry] = (await api.call("GET", "/v1/cron/runs", path=PATH))["runs"]
    assert entry["no"] == run["no"] and (entry["state"], entry["by_hand"], entry["parameters"]) == (
        "waiting",
        True,
        {"a": 2},
    )
    assert (await api.call("GET", "/v1/cron/runs", before=run["no"]))["runs"] == []


async def test_what_is_wrong_is_refused_with_the_field(api: Api) -> None:
    error = await api.refused(
        400, "CRON_EXPRESSION", "POST", "/v1/cron", {"id": "x", "spec": SPEC | {"cron": "0 25 * * *"}}
    )
    assert "bad hour" in error["message"]
    await api.refused(400, "BODY_INVALID", "POST", "/v1/cron", {"id": "x", "spec": SPEC | {"retry": 99}})
    await api.refused(400, "PATH_INVALID", "POST", "/v1/cron", {"id": "X y", "spec": SPEC})
    await api.refused(404, "USER_UNKNOWN", "POST", "/v1/cron", {"id": "x", "spec": SPEC, "user": "ben"})
    await api.refused(409, "CRON_PAST", "POST", "/v1/cron", {"id": "x", "spec": {"at": "2020-01-01", "prompt": "x"}})
    await api.refused(403, "OTHER_USER", "POST", "/v1/cron", {"id": "x", "spec": SPEC | {"target": "/ben/direct"}})
    await api.call("POST", "/v1/cron", {"id": "look", "spec": SPEC}, status=201)
    await api.refused(409, "CRON_EXISTS", "POST", "/v1/cron", {"id": "look", "spec": SPEC})
    await api.refused(400, "CRON_PARAMETER", "POST", "/v1/cron/run", {"parameters": {"b": 1}}, path=PATH)


async def test_while_a_job_is_typed_it_is_told_when_it_is_due_and_what_is_wrong_where(api: Api) -> None:
    spec = {"cron": "30 7 * * 1-5", "zone": "Europe/Berlin"}
    found = await api.call("POST", "/v1/cron/preview", {"id": "look", "spec": spec, "count": 7})
    assert (found["words"], found["zone"]) == ("At 07:30 on Monday through Friday", "Europe/Berlin")
    assert found["problems"] == [] and len(found["next"]) == len(found["next_at"]) == 7
    assert {time[10:19] for time in found["next"]} == {"T07:30:00"}
    await api.call("POST", "/v1/cron", {"id": "look", "spec": SPEC}, status=201)
    wrong = {"cron": "30 7 * *", "zone": "Mars", "retry": "x", "target": "/zz", "misfire": "never", "nothing": 1}
    found = await api.call("POST", "/v1/cron/preview", {"id": "look", "spec": wrong})
    assert {each["field"] for each in found["problems"]} == {"id", *wrong}
    assert all(each["what"] for each in found["problems"]) and found["next"] == []
    found = await api.call("POST", "/v1/cron/preview", {"spec": {"at": "2020-01-01T00:00"}})
    assert [each["field"] for each in found["problems"]] == ["at"]
    assert len((await api.call("GET", "/v1/cron"))["jobs"]) == 1  # nothing of it was kept


async def test_jobs_are_paged_and_runs_are_found_by_what_came_of_them(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.call("POST", "/v1/cron", {"id": name, "spec": SPEC}, status=201)
    page = (await api.call("GET", "/v1/cron", after="/ann/cron/a", limit=1))["jobs"]
    assert [(job["id"], job["words"]) for job in page] == [("b", "At 07:30 every day")]
    run = await api.call("POST", "/v1/cron/run", status=202, path="b")
    assert [each["no"] for each in (await api.call("GET", "/v1/cron/runs", state="waiting"))["runs"]] == [run["no"]]
    assert (await api.call("GET", "/v1/cron/runs", state="missed"))["runs"] == []
