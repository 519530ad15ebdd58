"""A slice of the campaign: a few routes for everybody, and a bit of all else; what is let through is seen."""

from pathlib import Path

import pytest

from daycare.api import guard
from daycare.api.callers import Caller
from tests.attacks import matrix, strangers
from tests.attacks.campaign import run
from tests.attacks.stage import staged
from tests.chance import SEED, WHOLE


def test_nothing_gets_through() -> None:
    print(f"SEED={SEED}")
    found = run(SEED, routes=None if WHOLE else 6, guesses=10_000 if WHOLE else 30, slow=200 if WHOLE else 5)
    assert found["harm"] == []
    assert found["matrix"]["requests"] > 200 and found["secrets"]["known"] > 10


def test_a_route_that_shows_what_is_another_persons_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Caller, "sees", lambda caller, path: True)
    monkeypatch.setattr(Caller, "check_user", lambda caller, user: None)
    with staged(tmp_path, SEED) as stage:
        tried = [each for each in matrix.routes(stage) if each[:2] in (("GET", "/v1/agents"), ("GET", "/v1/agent"))]
        leaks = matrix.attack(stage, tried)["leaks"]
    assert len(tried) == 2
    for who in ("bob", "eve", "bob's browser"):
        assert any(each.startswith(f"{who}: GET /v1/agent {{") for each in leaks)
        assert any(each.startswith(f"{who}: GET /v1/agents {{") and "with what is" in each for each in leaks)
        assert any(each.startswith(f"{who}: GET /v1/agents {{") and each.endswith(": 200") for each in leaks)


def test_a_page_of_somebody_else_that_gets_through_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_check_page", lambda *_, **__: None)
    with staged(tmp_path, SEED) as stage:
        assert strangers.cross_site(stage)["through"]
