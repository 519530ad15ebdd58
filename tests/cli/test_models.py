"""`daycare models` and `daycare models test`, as a person or a script calls them."""

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Daycare
from tests.cli.fake_daemon import FakeDaemon

FACTS = {
    "context": 128_000, "output": 16_384, "images": True,
    "input_usd": 2.5, "cached_usd": 1.25, "cache_write_usd": None, "output_usd": 10.0,
}  # fmt: skip
UNKNOWN = FACTS | {"context": 32_768, "images": None, "input_usd": None, "output_usd": None}


def model(name: str, facts: dict[str, Any] = UNKNOWN, *roles: str, fallback: int = 0) -> dict[str, Any]:
    return {"name": name, "facts": facts, "roles": roles, "fallback": fallback}


def provider(name: str, state: str = "ready", why: str = "", hint: str = "", *models: Any) -> dict[str, Any]:
    source = {"source": "https://example.org/prices", "date": "2026-11"}
    return {"name": name, "state": state, "why": why, "hint": hint, "models": models} | source


LISTING = {
    "providers": [
        provider("openai", "ready", "", "", model("gpt-4o", FACTS, "default", "user"), model("tts-1", fallback=1)),
        provider("work", "away", "the connection failed", "is the server running?"),
        provider("anthropic", "unconfigured", "no key is stored", "daycare keys add anthropic"),
    ],
    "roles": {"default": "openai/gpt-4o", "user": "openai/gpt-4o"},
    "fallbacks": ["openai/tts-1"],
}


def test_models_shows_prices_roles_fallbacks_and_what_to_do(fake: FakeDaemon, daycare: Daycare) -> None:
    fake.canned["GET", "/v1/models"] = (200, LISTING)
    done = daycare("models")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["gpt-4o", "128,000", "2.5", "10", "yes", "default,", "user"] in lines
    assert ["tts-1", "32,768", "unknown", "unknown", "unknown", "fallback", "1"] in lines
    assert "prices of 2026-11, see https://example.org/prices" in done.stdout
    assert "work: away, the connection failed\n  hint: is the server running?" in done.stdout
    assert "fallbacks: openai/tts-1" in done.stdout
    assert "anthropic: no key is stored. daycare keys add anthropic" in done.stdout
    assert json.loads(daycare("models", "--json").stdout) == json.loads(json.dumps(LISTING))


def test_long_lists_show_what_is_used_or_has_a_price_unless_all_is_asked(fake: FakeDaemon, daycare: Daycare) -> None:
    many = [model(f"nameless-{number}") for number in range(40)]
    openai = provider("openai", "ready", "", "", *many, model("priced", FACTS), model("used", UNKNOWN, "task"))
    fake.canned["GET", "/v1/models"] = (200, LISTING | {"providers": [openai]})
    shown = daycare("models").stdout
    assert "priced" in shown and "used" in shown and "nameless" not in shown
    assert "and 40 more: daycare models --all" in shown
    assert daycare("models", "--all").stdout.count("nameless") == 40


def test_models_test_tells_latency_or_error_with_hint_and_fails_if_one_did(fake: FakeDaemon, daycare: Daycare) -> None:
    good = {"model": "offline/rules", "latency_ms": 3, "code": "", "message": "", "hint": ""}
    bad = {
        "model": "openai/x", "latency_ms": 9, "code": "KEY_REFUSED", "message": "the key\nwas refused",
        "hint": "daycare keys add openai",
    }  # fmt: skip
    fake.canned["POST", "/v1/models/test"] = (200, {"results": [good]})
    done = daycare("models", "test")
    assert (done.returncode, done.stdout) == (0, "ok    offline/rules  3 ms\n")
    assert fake.called("POST", "/v1/models/test") == [({}, {"models": []})]
    fake.canned["POST", "/v1/models/test"] = (200, {"results": [good, bad]})
    done = daycare("models", "test", "offline/rules", "openai/x")
    assert done.returncode == 69
    assert done.stdout.splitlines()[1:] == [
        "fail  openai/x  9 ms  KEY_REFUSED: the key was refused",
        "      hint: daycare keys add openai",
    ]
    assert fake.called("POST", "/v1/models/test")[-1][1] == {"models": ["offline/rules", "openai/x"]}
    assert daycare("models", "test", "--json").returncode == 69


def test_models_work_without_a_daemon_and_a_key_alone_adds_a_provider(home: Path, daycare: Daycare) -> None:
    assert daycare("init", "--yes").returncode == 0
    listing = json.loads(daycare("models", "--json").stdout)
    states = {each["name"]: each for each in listing["providers"]}
    assert states["offline"]["state"] == "ready"
    assert (states["openai"]["state"], states["openai"]["hint"]) == ("unconfigured", "daycare keys add openai")
    done = daycare("models", "test", "openai/gpt-5-mini", "offline/rules")
    assert done.returncode == 69
    assert "PROVIDER_NOT_CONFIGURED" in done.stdout and "hint: daycare keys add openai" in done.stdout
    assert "ok    offline/rules" in done.stdout
    assert daycare("models", "test").returncode == 0
