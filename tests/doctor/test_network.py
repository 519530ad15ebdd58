"""The look at the network: who encrypts, how long a certificate is good, which tokens last for ever."""

from pathlib import Path

import pytest

from daycare.store.home import Home
from tests.cli.fake_daemon import FakeDaemon
from tests.doctor.looking import bad, look
from tests.network.certificates import made

OUTSIDE = 'listen = "0.0.0.0:8686"'


def configured(home: Home, *lines: str) -> Home:
    file = home.path / "config.toml"
    file.write_text(file.read_text() + "\n[api]\n" + "\n".join(lines) + "\n")
    return home


def told(home: Home) -> list[tuple[str, str]]:
    return [(level, message) for level, _, message in bad(home, "network")]


def test_an_api_that_nobody_reaches_or_this_machine_alone_is_fine(home: Home) -> None:
    assert [each.message for each in look(home, "network")] == ["the API answers on its socket only"]
    configured(home, 'listen = "127.0.0.1:8686"')
    assert [(each.level, each.message) for each in look(home, "network")] == [
        ("ok", "the API listens on 127.0.0.1:8686")
    ]


def test_addresses_that_nobody_encrypts_and_proxies_that_are_everybody_are_told(home: Home) -> None:
    configured(home, OUTSIDE, "insecure = true", 'trusted_proxies = ["10.0.0.1", "0.0.0.0/0", "::/0"]')
    found = told(home)
    assert [level for level, _ in found] == ["warn"] * 3
    assert "nothing encrypts" in found[0][1] and "0.0.0.0/0" in found[1][1] and "::/0" in found[2][1]


@pytest.mark.parametrize(
    ("days", "level", "message"), [(30, "", ""), (13, "warn", "expires in 13 days"), (-1, "fail", "has expired")]
)
def test_a_certificate_that_ends_soon_is_told(home: Home, tmp_path: Path, days: int, level: str, message: str) -> None:
    cert, key = made(tmp_path, days=days)
    configured(home, OUTSIDE, f'cert = "{cert}"', f'key = "{key}"')
    found = told(home)
    assert [each for each, _ in found] == ([level] if level else [])
    assert all(message in text for _, text in found)


def test_a_pair_that_cannot_be_used_and_a_key_for_all_to_read_are_told(home: Home, tmp_path: Path) -> None:
    cert, key = made(tmp_path)
    configured(home, OUTSIDE, f'cert = "{cert}"', f'key = "{key}"')
    key.chmod(0o640)
    assert told(home) == [("warn", f"others may read {key}")]
    key.unlink()
    [(level, text)] = told(home)
    assert level == "fail" and str(key) in text and "No such file" in text


def test_tokens_that_last_for_ever_and_their_lack_are_told(home: Home, fake: FakeDaemon) -> None:
    configured(home, OUTSIDE, 'trusted_proxies = ["10.0.0.1"]')
    fake.canned["GET", "/v1/tokens"] = (200, {"tokens": []})
    assert told(home) == [("warn", "0.0.0.0 is not opened to others before there is a token")]
    token = {"name": "laptop", "may": "operator", "expires_at": None, "revoked_at": None}
    fine = [{**token, "may": "person"}, {**token, "expires_at": 2**50}, {**token, "revoked_at": 1}]
    fake.canned["GET", "/v1/tokens"] = (200, {"tokens": fine})
    assert told(home) == []
    fake.canned["GET", "/v1/tokens"] = (200, {"tokens": [*fine, token]})
    assert told(home) == [("warn", "the token laptop may do everything, and does not expire")]
