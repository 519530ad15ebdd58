"""Tasks over HTTP."""

from tests.api.conftest import Api

PATH = "/ann/task/look"


async def test_a_task_is_started_waited_for_and_listed(api: Api) -> None:
    spec = {"prompt": "for {{days}} days", "parameters": {"days": {"value": "3", "type": "whole"}}}
    made = await api.call("POST", "/v1/tasks", {"id": "look", "spec": spec, "key": "k"}, status=201)
    assert (made["id"], made["path"], made["prompt"], made["parameters"]) == ("look", PATH, "for 3 days", {"days": 3})
    again = await api.call("POST", "/v1/tasks", {"id": "look", "spec": spec, "key": "k"}, status=201)
    assert again["no"] == made["no"]
    done = await api.call("GET", "/v1/tasks/task", path="look", wait_s=5)
    assert done["state"] in ("running", "done")  # nobody else waits for commits in this small daemon
    assert [task["path"] for task in (await api.call("GET", "/v1/tasks", user="ann"))["tasks"]] == [PATH]
    assert (await api.call("GET", "/v1/tasks", before=made["no"]))["tasks"] == []


async def test_what_is_wrong_is_refused_with_the_field(api: Api) -> None:
    spec = {"prompt": "look", "parameters": {"days": {"value": "x", "type": "whole"}}}
    error = await api.refused(400, "TASK_PARAMETER", "POST", "/v1/tasks", {"spec": spec})
    assert "parameter days: expected a whole number" in error["message"]
    error = await api.refused(400, "TASK_INVALID", "POST", "/v1/tasks", {"spec": {"prompt": " "}})
    assert error["message"].startswith("prompt")
    error = await api.refused(400, "TASK_INVALID", "POST", "/v1/tasks", {"spec": {"prompt": "x", "deadline_s": 0}})
    assert error["message"].startswith("deadline_s")
    await api.refused(400, "PATH_INVALID", "POST", "/v1/tasks", {"id": "X y", "spec": {"prompt": "x"}})
    await api.refused(404, "USER_UNKNOWN", "POST", "/v1/tasks", {"spec": {"prompt": "x"}, "user": "ben"})
    await api.refused(403, "OTHER_USER", "POST", "/v1/tasks", {"spec": {"prompt": "x"}, "deliver": "/ben/direct"})
    await api.refused(404, "TASK_UNKNOWN", "GET", "/v1/tasks/task", path=PATH)
    await api.refused(404, "TASK_UNKNOWN", "POST", "/v1/tasks/cancel", path=PATH)
