"""Tokens of services: checked by the service, kept sealed, and never shown again."""

import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from daycare.features.credentials import slack
from daycare.settings import CredentialsSection
from daycare.testing.slack_server import FakeSlack
from tests.panels.conftest import Panels

SLACK = "/v1/credentials/slack"
TAKEN = {"configured": True, "identity": "@bot in Acme", "missing": []}
GOOD, OTHER = "xoxb-1234567890-goodgoodgood", "xoxb-1234567890-otherother"


@pytest.fixture
async def fake(panels: Panels) -> AsyncIterator[FakeSlack]:
    async with FakeSlack.serve() as server:
        server.tokens[GOOD] = server.tokens[OTHER] = ""
        point_at(panels, server.url)
        yield server


def point_at(panels: Panels, url: str) -> None:
    live = panels.house.daemon.live
    live.take(replace(live.now, credentials=CredentialsSection(slack_url=url)))


def stored(panels: Panels) -> str | None:
    token = panels.house.store.secrets.get("slack")
    return None if token is None else panels.house.daemon.vault.open(token)


async def status(panels: Panels) -> Any:
    return (await panels.call("GET", f"{SLACK}/status"))["configured"]


async def test_a_token_that_slack_takes_is_kept_until_it_is_forgotten(panels: Panels, fake: FakeSlack) -> None:
    assert await status(panels) is False
    assert await panels.call("POST", SLACK, {"token": GOOD}) == TAKEN
    assert (await status(panels), stored(panels), fake.asked) == (True, GOOD, 1)
    await panels.call("POST", SLACK, {"token": OTHER})
    assert stored(panels) == OTHER
    assert [each["name"] for each in (await panels.call("GET", "/v1/keys"))["keys"]] == ["slack"]
    for _ in range(2):
        gone = await panels.ask("DELETE", SLACK)
        assert (gone.status_code, gone.content) == (204, b"")
    assert (await status(panels), stored(panels)) == (False, None)


@pytest.mark.parametrize(
    ("scopes", "missing"),
    [
        ("channels:read, groups:read, chat:write", []),
        ("chat:write", ["channels:read", "groups:read"]),
        ("", ["channels:read", "groups:read", "chat:write"]),
        (f"<b>,{GOOD},chat:write", ["channels:read", "groups:read"]),
        (None, []),
    ],
)
async def test_the_scopes_that_a_token_lacks_are_told_and_it_is_kept(
    panels: Panels, fake: FakeSlack, scopes: str | None, missing: list[str]
) -> None:
    [listed] = (await panels.call("GET", "/v1/credentials"))["credentials"]
    assert listed["scopes"] == ["channels:read", "groups:read", "chat:write"]
    fake.scopes = scopes
    for route in (SLACK, f"{SLACK}/check"):
        assert (await panels.call("POST", route, {"token": GOOD} if route == SLACK else None))["missing"] == missing
    assert stored(panels) == GOOD


@pytest.mark.parametrize(
    "token", ["", "xoxp-1234567890-goodgoodgood", "xoxb-short", f"{GOOD}\n", f" {GOOD}", "xoxb-ü" * 5]
)
async def test_what_does_not_look_like_a_token_is_400_and_nobody_is_asked(
    panels: Panels, fake: FakeSlack, token: str
) -> None:
    error = await panels.refused(400, "CREDENTIAL_FORMAT", "POST", SLACK, {"token": token})
    assert "xoxb-..." in error["hint"] and (not token or token.strip() not in str(error))
    assert (fake.asked, stored(panels)) == (0, None)


@pytest.mark.parametrize("why", ["invalid_auth", "account_inactive", "token_revoked", "token_expired"])
async def test_a_token_that_slack_refuses_is_401_and_the_one_before_stays(
    panels: Panels, fake: FakeSlack, why: str
) -> None:
    await panels.call("POST", SLACK, {"token": GOOD})
    bad = "xoxb-1234567890-badbadbad"
    fake.tokens[bad] = why
    error = await panels.refused(401, "CREDENTIAL_REJECTED", "POST", SLACK, {"token": bad})
    assert why in error["message"] and bad not in str(error)
    assert stored(panels) == GOOD


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (500, b""),
        (429, b""),
        (302, b""),
        (200, b'{"ok": false, "error": "ratelimited"}'),
        (200, b'{"ok": false, "error": "internal_error"}'),
        (200, b'{"ok": false, "error": "<script>\\nxoxb-1234567890-goodgoodgood"}'),
        (200, b'{"ok": "yes"}'),
        (200, b"<html>log in</html>"),
        (200, b"\xff\xfe"),
        (200, b'{"ok": true, "x": "' + b"y" * 100_000 + b'"}'),
    ],
)
async def test_where_slack_cannot_say_the_answer_is_503_and_nothing_is_stored(
    panels: Panels, fake: FakeSlack, status: int, raw: bytes
) -> None:
    fake.status, fake.raw = status, raw
    error = await panels.refused(503, "CREDENTIAL_UNCHECKED", "POST", SLACK, {"token": GOOD})
    assert GOOD not in str(error) and "<" not in error["message"]
    assert (stored(panels), fake.asked) == (None, 1)


async def test_a_slack_that_is_away_or_silent_is_503(
    panels: Panels, fake: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack, "CREDENTIAL_CHECK_S", 0.3)
    fake.silent = True
    error = await panels.refused(503, "CREDENTIAL_UNCHECKED", "POST", SLACK, {"token": GOOD})
    assert "no answer within 0.3 s" in error["message"]
    point_at(panels, "http://127.0.0.1:9/api")
    error = await panels.refused(503, "CREDENTIAL_UNCHECKED", "POST", SLACK, {"token": GOOD})
    assert "no connection" in error["message"] and stored(panels) is None


async def test_a_token_stands_in_no_answer_no_event_and_no_file(
    panels: Panels, fake: FakeSlack, tmp_path: Path
) -> None:
    await panels.call("POST", SLACK, {"token": GOOD})
    fake.tokens[OTHER] = "token_revoked"
    await panels.refused(401, "CREDENTIAL_REJECTED", "POST", SLACK, {"token": OTHER})
    shown = [(await panels.ask("GET", route)).text for route in (f"{SLACK}/status", "/v1/keys", "/v1/status")]
    assert panels.house.events() is not None
    texts = [*shown, str(panels.house.events())]
    gc.collect()
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 1
    for token in (GOOD, OTHER):
        assert not any(token in text for text in texts)
        assert not any(token.encode() in data for data in files)


async def test_a_token_that_is_kept_is_asked_about_again(panels: Panels, fake: FakeSlack) -> None:
    await panels.refused(404, "CREDENTIAL_MISSING", "POST", f"{SLACK}/check")
    await panels.call("POST", SLACK, {"token": GOOD})
    assert await panels.call("POST", f"{SLACK}/check") == TAKEN
    [listed] = (await panels.call("GET", "/v1/credentials"))["credentials"]
    assert (listed["service"], listed["shape"], listed["configured"]) == ("slack", "xoxb-...", True)
    fake.tokens[GOOD] = "token_revoked"
    error = await panels.refused(401, "CREDENTIAL_REJECTED", "POST", f"{SLACK}/check")
    assert "token_revoked" in error["message"] and GOOD not in str(error)
    assert (stored(panels), fake.asked) == (GOOD, 3), "only a person deletes it"


async def test_a_service_that_nobody_knows_is_404(panels: Panels) -> None:
    for method, route in (("POST", ""), ("GET", "/status"), ("DELETE", "")):
        body = {"token": GOOD} if method == "POST" else None
        await panels.refused(404, "CREDENTIAL_SERVICE", method, f"/v1/credentials/acme{route}", body)
    await panels.refused(400, "BODY_INVALID", "POST", SLACK, {"token": 7})


async def test_a_token_outlives_a_change_of_the_vaults_key(panels: Panels, fake: FakeSlack) -> None:
    await panels.call("POST", SLACK, {"token": GOOD})
    assert (await panels.call("POST", "/v1/keys/rotate"))["resealed"] == 1
    assert stored(panels) == GOOD
