"""Where a request comes from: proxies that are named are believed, and nobody else."""

from pathlib import Path

import pytest

from daycare.api.peers import Peer, Peers
from daycare.base.api_settings import ApiSection
from daycare.config import check
from daycare.settings import Config, Live
from tests.network.conftest import Network
from tests.network.test_callers import code
from tests.network.test_tls import set_up

PROXIES = ("10.0.0.1", "192.168.0.0/16", "fd00::/8")


def peer(client: str, said: str = "", proto: str = "", *, scheme: str = "http", **settings: object) -> Peer:
    section = ApiSection(**{"trusted_proxies": PROXIES, **settings})  # type: ignore[arg-type]
    headers = {"x-forwarded-for": said, "x-forwarded-proto": proto}
    return Peers(Live(Config(api=section))).of({"client": (client, 1), "scheme": scheme}, headers)


@pytest.mark.parametrize(
    ("client", "said", "address"),
    [
        ("10.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "1.1.1.1, 203.0.113.7", "203.0.113.7"),  # what stands before it anybody may have written
        ("10.0.0.1", "1.1.1.1, 203.0.113.7, 192.168.3.4", "203.0.113.7"),  # two proxies of ours
        ("10.0.0.1", "192.168.3.4", "192.168.3.4"),
        ("10.0.0.1", "[2001:db8::1]:4711, 192.168.3.4:80", "2001:db8::1"),
        ("::ffff:10.0.0.1", "::ffff:203.0.113.7", "203.0.113.7"),
        ("fd12::1", "2001:DB8:0::1", "2001:db8::1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "1.1.1.1, _hidden, 192.168.3.4", "192.168.3.4"),
        ("10.0.0.2", "203.0.113.7", "10.0.0.2"),  # not one of ours
        ("203.0.113.9", "127.0.0.1", "203.0.113.9"),
    ],
)
def test_the_address_is_that_of_the_last_hop_that_is_no_proxy_of_ours(client: str, said: str, address: str) -> None:
    assert peer(client, said).address == address


def test_only_a_named_proxy_says_that_it_was_encrypted() -> None:
    assert peer("10.0.0.1", "1.1.1.1", "https").secure and peer("10.0.0.1", "1.1.1.1", "http, https").secure
    assert not peer("10.0.0.1", "1.1.1.1", "https, http").secure and not peer("10.0.0.1", "1.1.1.1").secure
    assert not peer("203.0.113.9", "", "https").secure
    assert peer("203.0.113.9", scheme="https").secure


@pytest.mark.parametrize(
    ("client", "settings", "passed"),
    [
        ("203.0.113.9", {}, True),
        ("10.0.0.1", {}, False),
        ("127.0.0.1", {}, False),
        ("203.0.113.9", {"insecure": True}, False),
        ("203.0.113.9", {"trusted_proxies": ()}, False),
    ],
)
def test_where_a_proxy_encrypts_nobody_comes_past_it(client: str, settings: dict[str, object], *, passed: bool) -> None:
    section = ApiSection(**{"trusted_proxies": PROXIES, **settings})  # type: ignore[arg-type]
    peers = Peers(Live(Config(api=section)))
    assert peers.past_proxy(peers.of({"client": (client, 1), "scheme": "http"}, {})) is passed


def test_wrong_tokens_count_for_who_sends_them_and_not_for_the_proxy(network: Network) -> None:
    set_up(network, trusted_proxies=["127.0.0.1"])
    network.tokens["wrong"] = "daycare_wrong"

    def tried(address: str) -> str:
        return code(network.call("wrong", "GET", "/v1/status", headers={"X-Forwarded-For": address}))

    assert [tried("203.0.113.7") for _ in range(11)] == ["TOKEN_WRONG"] * 10 + ["TOKENS_WRONG"]
    assert tried("203.0.113.8") == "TOKEN_WRONG"
    network.call("ann", "GET", "/v1/agents", headers={"X-Forwarded-For": "1.1.1.1, 203.0.113.9"})
    [ann] = [each for each in network.locally("GET", "/v1/tokens")["tokens"] if each["name"] == "ann"]
    assert ann["used_from"] == "203.0.113.9"


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ('listen = "0.0.0.0:8686"', "listen"),
        ('listen = "0.0.0.0:8686"\ninsecure = true', ""),
        ('listen = "0.0.0.0:8686"\ntrusted_proxies = ["10.0.0.0/8"]', ""),
        ('listen = "0.0.0.0:8686"\ncert = "/a/cert.pem"\nkey = "/a/key.pem"', ""),
        ('cert = "/a/cert.pem"', "key"),
        ('key = "/a/key.pem"', "cert"),
        ('cert = "cert.pem"\nkey = "~/key.pem"', "cert"),
        ('trusted_proxies = ["10.0.0.1/8"]', "trusted_proxies"),
        ('trusted_proxies = ["proxy.example"]', "trusted_proxies"),
    ],
)
def test_what_others_reach_has_to_be_encrypted_by_somebody(tmp_path: Path, settings: str, wrong: str) -> None:
    (tmp_path / "config.toml").write_text(f"[api]\n{settings}\n")
    found = check(tmp_path)
    assert [each.key for each in found] == ([f"api.{wrong}"] if wrong else []), found
