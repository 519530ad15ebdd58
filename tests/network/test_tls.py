"""TLS of our own: from 1.2 on, with a pair that may be changed while connections are open."""

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from daycare.api.certificates import Certificates
from daycare.base.api_settings import ApiSection
from daycare.settings import Config, Live
from tests.network.certificates import made
from tests.network.conftest import Network


def set_up(network: Network, **settings: object) -> None:
    """Change settings of `[api]`, as a person does with an editor and a reload."""
    lines = "".join(
        f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n"
        for name, value in settings.items()
    )
    config = network.home / "config.toml"
    config.write_text(config.read_text().replace("[api]\n", f"[api]\n{lines}"))
    network.locally("POST", "/v1/config/reload")


def eventually(do: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 15
    while not do():
        assert time.monotonic() < give_up


def greeted(network: Network, context: ssl.SSLContext) -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", network.port), timeout=10)
    return context.wrap_socket(raw, server_hostname="127.0.0.1")


def name_of(connected: ssl.SSLSocket) -> str:
    found = x509.load_der_x509_certificate(connected.getpeercert(binary_form=True) or b"")
    return found.subject.rfc4514_string()


def test_the_api_is_encrypted_and_a_new_pair_counts_for_new_connections(network: Network, tmp_path: Path) -> None:
    cert, key = made(tmp_path, "first")
    set_up(network, cert=str(cert), key=str(key))
    url, headers = f"https://127.0.0.1:{network.port}/v1/session", {"Authorization": f"Bearer {network.tokens['ann']}"}
    trusting = ssl.create_default_context(cafile=str(cert))

    def answers() -> bool:
        try:
            return httpx.get(url, headers=headers, verify=trusting, timeout=10).status_code == 200
        except httpx.TransportError:
            return False

    eventually(answers)
    with pytest.raises(httpx.TransportError):
        network.call("ann", "GET", "/v1/session")  # not encrypted
    old = ssl.create_default_context(cafile=str(cert))
    with pytest.warns(DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        greeted(network, old)
    request = f"GET /v1/session HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {network.tokens['ann']}\r\n\r\n"
    with greeted(network, trusting) as open_:
        open_.sendall(request.encode())
        assert open_.recv(65_536).startswith(b"HTTP/1.1 200") and open_.version() in ("TLSv1.2", "TLSv1.3")
        assert name_of(open_) == "CN=first"
        key.write_text("no key")
        with greeted(network, trusting) as still:
            assert name_of(still) == "CN=first", "a pair that cannot be used changes nothing"
        log = (network.home / "daycare.log").read_text()
        assert "api.certificate_unusable" in log and "BEGIN" not in log
        made(tmp_path, "second")
        newer = ssl.create_default_context(cafile=str(cert))
        with greeted(network, newer) as other:
            assert name_of(other) == "CN=second"
        open_.sendall(request.encode())
        assert open_.recv(65_536).startswith(b"HTTP/1.1 200"), "what was open goes on"


def test_who_does_not_begin_with_tls_is_let_go_without_an_answer(network: Network, tmp_path: Path) -> None:
    cert, key = made(tmp_path)
    set_up(network, cert=str(cert), key=str(key))
    log = network.home / "daycare.log"
    eventually(lambda: '"tls": true' in log.read_text() or "tls=true" in log.read_text().lower())
    with socket.create_connection(("127.0.0.1", network.port), timeout=10) as plain, suppress(ConnectionResetError):
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while part := plain.recv(1_000):
            assert not part.startswith(b"HTTP/")


def test_a_pair_that_never_worked_is_none_and_a_key_for_all_to_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = made(tmp_path)
    key.chmod(0o644)
    good = key.read_bytes()
    key.write_bytes(b"")
    certificates = Certificates(Live(Config(api=ApiSection(cert=str(cert), key=str(key)))))
    assert certificates.wanted and certificates.context() is None is certificates.context()
    assert caplog.text.count("api.certificate_unusable") == 1, "it is told once"
    assert "api.key_readable" in caplog.text and str(key) in caplog.text
    key.write_bytes(good)
    context = certificates.context()
    assert context is not None and context.minimum_version is ssl.TLSVersion.TLSv1_2
    key.unlink()
    assert certificates.context() is context, "the old one stays in use"
