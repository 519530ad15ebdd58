"""Signals and heartbeats over HTTP."""

from typing import Any

from tests.api.conftest import ANN, Api


async def test_a_signal_is_sent_listed_and_replaced(api: Api) -> None:
    first = await api.call(
        "POST", "/v1/signals", {"type": "tea:ready", "after_s": 600, "repeat": "t", "key": "k"}, status=201
    )
    again = await api.call(
        "POST", "/v1/signals", {"type": "tea:ready", "after_s": 600, "repeat": "t", "key": "k"}, status=201
    )
    assert (first["no"], first["state"], first["user"], first["deliveries"]) == (again["no"], "waiting", "ann", [])
    body = {"type": "tea:ready", "data": "green", "after_s": 900, "repeat": "t"}
    second = await api.call("POST", "/v1/signals", body, status=201)
    found = (await api.call("GET", "/v1/signals", user="ann"))["signals"]
    assert [(it["no"], it["state"]) for it in found] == [(second["no"], "waiting"), (first["no"], "replaced")]
    assert [it["no"] for it in (await api.call("GET", "/v1/signals", waiting="true"))["signals"]] == [second["no"]]
    assert [it["no"] for it in (await api.call("GET", "/v1/signals", before=second["no"]))["signals"]] == [first["no"]]
    assert (await api.call("GET", "/v1/signals", user="ben"))["signals"] == []
    assert (await api.call("GET", "/v1/signals/signal", no=second["no"]))["data"] == "green"


async def test_an_agent_is_subscribed_and_unsubscribed(api: Api) -> None:
    await api.ask("hello")
    made = await api.call("POST", "/v1/signals/subscriptions", {"path": ANN, "pattern": "tea:*"}, status=201)
    assert (made["path"], made["pattern"], made["silent"], made["user"]) == (ANN, "tea:*", False, "ann")
    [listed] = (await api.call("GET", "/v1/signals/subscriptions", user="ann"))["subscriptions"]
    assert listed == made
    gone: dict[str, Any] = {"path": ANN, "pattern": "tea:*"}
    assert await api.call("DELETE", "/v1/signals/subscriptions", **gone) == gone
    await api.refused(404, "SUBSCRIPTION_UNKNOWN", "DELETE", "/v1/signals/subscriptions", **gone)


async def test_what_is_wrong_with_signals_is_refused(api: Api) -> None:
    await api.refused(400, "SIGNAL_TYPE", "POST", "/v1/signals", {"type": "agent:x:idle"})
    await api.refused(400, "SIGNAL_DATA", "POST", "/v1/signals", {"type": "a", "data": "x" * 20_000})
    await api.refused(400, "BODY_INVALID", "POST", "/v1/signals", {"type": "a", "after_s": -1})
    await api.refused(404, "USER_UNKNOWN", "POST", "/v1/signals", {"type": "a", "user": "ben"})
    await api.refused(404, "SIGNAL_UNKNOWN", "GET", "/v1/signals/signal", no=7)
    await api.refused(404, "AGENT_UNKNOWN", "POST", "/v1/signals/subscriptions", {"path": ANN, "pattern": "a"})
    await api.refused(400, "PATH_INVALID", "POST", "/v1/signals/subscriptions", {"path": "ann", "pattern": "a"})


async def test_a_heartbeat_needs_a_budget_that_somebody_has_set(api: Api) -> None:
    await api.ask("hello")
    assert (await api.call("GET", "/v1/agent", path=ANN))["heartbeat"] is None
    error = await api.refused(409, "HEARTBEAT_NO_BUDGET", "PATCH", "/v1/agent", {"heartbeat_s": 1800}, path=ANN)
    assert error["hint"] == f"daycare budget set {ANN} --day 1usd"
    body = {"path": "/ann/agent/ida", "config": {"heartbeat_s": 1800}}
    await api.refused(409, "HEARTBEAT_NO_BUDGET", "POST", "/v1/agents", body)
    await api.call("PUT", "/v1/budget", {"path": "/ann", "limits": {"day.usd": 1_000_000}})
    await api.refused(400, "HEARTBEAT_INVALID", "PATCH", "/v1/agent", {"heartbeat_s": 10}, path=ANN)
    await api.call("PATCH", "/v1/agent", {"heartbeat_s": 1800}, path=ANN)
    shown = (await api.call("GET", "/v1/agent", path=ANN))["heartbeat"]
    assert (shown["every_s"], shown["beats"], shown["paused"]) == (1800, 0, "")
    await api.call("DELETE", "/v1/budget", path="/ann")
    assert "nobody has set a budget" in (await api.call("GET", "/v1/agent", path=ANN))["heartbeat"]["paused"]
    await api.call("PATCH", "/v1/agent", {"heartbeat_s": None}, path=ANN)
    assert (await api.call("GET", "/v1/agent", path=ANN))["heartbeat"] is None
