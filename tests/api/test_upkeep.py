"""How the installation is, and apps, over the API."""

from tests.api.conftest import Api


async def test_health_is_told_with_each_finding(api: Api) -> None:
    found = await api.call("GET", "/v1/health")
    loop, disk = found["findings"]
    assert found["ok"] and loop["name"] == "loop"
    assert disk == {"name": "disk", "ok": True, "text": "10 GB are free", "watched": False, "hint": ""}


async def test_an_app_needs_a_behaviour_that_there_is(api: Api) -> None:
    path = "/ann/app/notes"
    error = await api.refused(400, "AGENT_BEHAVIOUR", "POST", "/v1/agents", {"path": path})
    assert "an app is made of a behaviour" in error["message"]
    await api.refused(404, "BEHAVIOUR_UNKNOWN", "POST", "/v1/agents", {"path": path, "config": {"behaviour": "list"}})
    wrong = {"path": "/ann/agent/notes", "config": {"behaviour": "list"}}
    await api.refused(400, "AGENT_BEHAVIOUR", "POST", "/v1/agents", wrong)
    await api.call("POST", "/v1/agents", {"path": "/ann/agent/notes"}, status=201)
    await api.refused(400, "AGENT_BEHAVIOUR", "PATCH", "/v1/agent", {"behaviour": "list"}, path="/ann/agent/notes")
