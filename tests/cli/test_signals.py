"""`daycare signals` and heartbeats from the command line."""

import json

from tests.cli.conftest import Daycare


def test_signals_are_sent_subscribed_to_and_told_of(daycare: Daycare) -> None:
    assert daycare("init", "--yes").returncode == 0
    assert daycare("signals").stdout == "no subscriptions, and no signal waits\n"
    made = daycare("agents", "create", f"/{_user(daycare)}/agent/ida")
    assert made.returncode == 0, made.stderr
    path = f"/{_user(daycare)}/agent/ida"
    assert daycare("signals", "subscribe", path, "tea:*", "--silent").stdout == f"{path} gets tea:* as notes\n"
    sent = daycare("signals", "send", "tea:ready", "--data", "green", "--after", "2h", "--repeat", "tea", "--json")
    assert sent.returncode == 0, sent.stderr
    it = json.loads(sent.stdout)
    assert (it["type"], it["data"], it["key"], it["state"]) == ("tea:ready", "green", "tea", "waiting")
    assert 7_199_000 < it["due_at"] - it["created_at"] <= 7_200_000
    listed = json.loads(daycare("signals", "list", "--json").stdout)
    assert [each["pattern"] for each in listed["subscriptions"]] == ["tea:*"]
    assert [each["no"] for each in listed["waiting"]] == [it["no"]]
    shown = daycare("signals").stdout
    assert "tea:*" in shown and "tea:ready" in shown and "note" in shown
    assert "green" in daycare("signals", "history").stdout
    assert daycare("signals", "unsubscribe", path, "tea:*").returncode == 0
    assert daycare("signals", "unsubscribe", path, "tea:*").returncode == 3
    assert daycare("signals", "send", "agent:x:idle").returncode == 2
    assert daycare("signals", "send", "tea:ready", "--after", "soon").returncode == 2


def test_a_heartbeat_is_switched_on_within_a_budget(daycare: Daycare) -> None:
    assert daycare("init", "--yes").returncode == 0
    path = f"/{_user(daycare)}/agent/ida"
    assert daycare("agents", "create", path).returncode == 0
    refused = daycare("agents", "set", path, "--heartbeat", "30m")
    assert refused.returncode == 5 and f"daycare budget set {path}" in refused.stderr
    assert daycare("budget", "set", path, "--day", "1usd").returncode == 0
    done = daycare("agents", "set", path, "--heartbeat", "30m")
    assert done.returncode == 0, done.stderr
    assert "every 30 min" in daycare("agents", "show", path).stdout
    assert daycare("budget", "rm", path).returncode == 0
    assert "paused: a heartbeat spends by itself" in daycare("agents", "show", path).stdout
    assert daycare("agents", "set", path, "--heartbeat", "off").returncode == 0
    assert "heartbeat" not in daycare("agents", "show", path).stdout


def _user(daycare: Daycare) -> str:
    [user] = json.loads(daycare("users", "list", "--json").stdout)["users"]
    return str(user["id"])
