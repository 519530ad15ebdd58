"""What needs no token of ours: names that mean 127.0.0.1, pages, two readings of one request, slowness, guessing."""

import secrets
import socket
import time
from collections import Counter
from typing import Any, Final

from tests.attacks.stage import AttackStage
from tests.network.test_strict_http import LINES, REFUSED

_HOSTS: Final = (
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "[::ffff:127.0.0.1]",
    "127.1",
    "0.0.0.0",
    "2130706433",
    "localhost.",
    "",
)
_ORIGINS: Final = (
    "https://evil.example",
    "null",
    "http://127.0.0.1.evil.example",
    "https://chat.example.evil.example",
    "http://localhost:1",
    "file://",
)
_PIECES: Final = 5  # of a slow head, before it is given up


def rebinding(stage: AttackStage) -> dict[str, Any]:
    """Ask under names that are not ours, with a good token and with a cookie."""
    hosts = [*_HOSTS, *(f"{secrets.token_hex(4)}.example:{stage.rng.randrange(1, 65_536)}" for _ in range(20))]
    through = []
    for host in hosts:
        for who in ("operator", "ann's browser"):
            for method, route in (("GET", "/v1/status"), ("GET", "/v1/session"), ("POST", "/v1/tickets")):
                answer = stage.ask(
                    method, route, stage.headers(who) | {"Host": host}, body={} if method == "POST" else None
                )
                if answer.status != 403:
                    through.append(f"{who} at {host!r}: {method} {route}: {answer.status}")
    return {"tried": len(hosts) * 6, "through": through}


def cross_site(stage: AttackStage) -> dict[str, Any]:
    """Let pages of others send a browser's cookie: with and without what stands against forgery."""
    cookie, csrf = stage.cookies["ann's browser"]
    _, stolen = stage.cookies["bob's browser"]
    through, tried = [], 0
    for origin in (*_ORIGINS, None, stage.base):
        for value in (None, "", csrf[:-1], stolen, csrf):
            if origin == stage.base and value == csrf:
                continue  # that is our own page
            headers = {"Cookie": f"daycare_session={cookie}"}
            headers |= {"Origin": origin} if origin is not None else {}
            headers |= {"X-Daycare-CSRF": value} if value is not None else {}
            for method, route in (("POST", "/v1/tickets"), ("POST", "/v1/users"), ("DELETE", "/v1/browsers")):
                answer = stage.ask(method, route, headers, body={"id": "mallory"})
                tried += 1
                if answer.status != 403:
                    through.append(f"{origin} {value}: {method} {route}: {answer.status}")
        if origin not in (None, stage.base):
            answer = stage.ask("GET", "/v1/session", {"Cookie": f"daycare_session={cookie}", "Origin": str(origin)})
            asked = stage.ask("OPTIONS", "/v1/users", {"Origin": str(origin), "Access-Control-Request-Method": "POST"})
            tried += 2
            through += [f"{origin} read a session: {each.status}" for each in (answer, asked) if each.status != 403]
    return {"tried": tried, "through": through}


def smuggling(stage: AttackStage) -> dict[str, Any]:
    """Send what a proxy and we could read differently; a second answer, or one that is no refusal, got through."""
    head = f"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {stage.network.tokens['operator']}\r\n"
    through = []
    cases = {**{name: head + text for name, text in REFUSED.items()}, **LINES}
    for name, text in cases.items():
        answer = _raw(stage, text.encode("latin-1"))
        if answer.count(b"HTTP/1.") != 1 or (
            not answer.startswith(b"HTTP/1.1 4") and not answer.startswith(b"HTTP/1.1 5")
        ):
            through.append(f"{name}: {answer[:60]!r}")
    return {"tried": len(cases), "through": through}


def slow_loris(stage: AttackStage, connections: int) -> dict[str, Any]:
    """Hold connections with heads that never end; meanwhile a good request is answered, and all are let go in time."""
    held = []
    for _ in range(connections):
        each = socket.create_connection(("127.0.0.1", stage.network.port), timeout=30)
        each.sendall(b"GET /v1/status HTTP/1.1\r\nX: ")
        held.append(each)
    began = time.monotonic()
    waited = [_timed(stage) for _ in range(_PIECES)]
    for each in held:
        each.settimeout(30)
        try:
            while each.recv(4_096):
                pass
        except OSError:
            pass
        each.close()
    return {
        "connections": connections,
        "others_waited_ms_max": round(max(wait for wait, _ in waited) * 1_000),
        "others_refused": sum(status != 200 for _, status in waited),
        "let_go_after_s": round(time.monotonic() - began, 1),
    }


def _timed(stage: AttackStage) -> tuple[float, int]:
    began = time.monotonic()
    status = stage.ask("GET", "/v1/session", stage.headers("operator")).status
    return time.monotonic() - began, status


def guessing(stage: AttackStage, count: int) -> dict[str, Any]:
    """Try so many wrong tokens; a right one still opens."""
    statuses: Counter[int] = Counter()
    began = time.monotonic()
    for _ in range(count):
        wrong = f"daycare_{secrets.token_urlsafe(stage.rng.choice((1, 16, 32, 64)))}"
        head = f"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {wrong}\r\n\r\n"
        statuses[int(_raw(stage, head.encode())[9:12] or 0)] += 1
    return {
        "tried": count,
        "statuses": {str(status): number for status, number in sorted(statuses.items())},
        "seconds": round(time.monotonic() - began, 1),
        "right_token": _timed(stage)[1],
    }


def revoked(stage: AttackStage) -> dict[str, Any]:
    """Revoke a token whose stream is open; return how long it stayed open, and what the token opens then."""
    token = stage.keep("token that is revoked", stage.network.add("leaver", user="bob"))
    head = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", stage.network.port), timeout=30) as stream:
        stream.sendall(head.encode())
        assert b"200" in stream.recv(4_096)
        ticket = stage.ask("POST", "/v1/tickets", stage.headers("leaver"), makes=True).text.partition('"ticket":"')[2]
        stage.network.locally("DELETE", "/v1/tokens", name="leaver")
        began = time.monotonic()
        while stream.recv(4_096):
            pass
        open_s = time.monotonic() - began
    after = [
        stage.ask("GET", "/v1/agents", stage.headers("leaver")).status,
        stage.ask("GET", "/v1/events", {}, ticket=stage.keep("ticket", ticket.partition('"')[0])).status,
    ]
    return {"open_ms": round(open_s * 1_000), "through": [str(each) for each in after if each not in (401, 429)]}


def _raw(stage: AttackStage, data: bytes) -> bytes:
    """Return all that comes back for some bytes until the connection ends."""
    answer = b""
    with socket.create_connection(("127.0.0.1", stage.network.port), timeout=10) as raw:
        raw.sendall(data)
        try:
            while part := raw.recv(65_536):
                answer += part
        except OSError:
            pass
    return answer
