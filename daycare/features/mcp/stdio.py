"""daycare as an MCP server over stdio: each line goes to `/mcp` of a daemon, and what that answers comes back as one.

Requests are answered as they are done: a question that waits holds up no other.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self

from daycare.base.errors import DaycareError, InvalidError, UnavailableError
from daycare.base.secrecy import hide

CALLS_MAX: Final = 16  # at a time; more lines wait to be read
POST_S: Final = 660.0
LINE_MAX_CHARS: Final = 1024 * 1024

Post = Callable[[dict[str, Any]], dict[str, Any]]

_INTERNAL, _PARSE = -32603, -32700


class RemoteDaemon:
    """A daemon that a URL leads to, in the name of a token. Raises `InvalidError` USAGE where there is none."""

    def __init__(self, url: str, token_env: str) -> None:
        import httpx

        token = os.environ.get(token_env, "")
        if not token:
            raise InvalidError("USAGE", f"serving: the variable {token_env} is empty", hint="daycare tokens add NAME")
        hide(token)
        self._http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=POST_S)

    def post(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return what the daemon answers, {} for nothing. Raises `UnavailableError`."""
        import httpx

        try:
            answer = self._http.post("/mcp", json=message)
            document = answer.json() if answer.content else {}
        except (httpx.HTTPError, ValueError) as error:
            raise UnavailableError("DAEMON_AWAY", f"asking the daemon: {type(error).__name__}") from None
        if answer.is_error and isinstance(document.get("error"), dict) and "jsonrpc" not in document:
            raise UnavailableError("DAEMON_AWAY", str(document["error"].get("message", answer.status_code)))
        return document if isinstance(document, dict) else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()


def serve_stdio(post: Post) -> None:
    """Serve until the input ends."""
    places = threading.Semaphore(CALLS_MAX)
    writing = threading.Lock()

    def say(message: dict[str, Any]) -> None:
        with writing:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def pass_on(message: dict[str, Any]) -> None:
        try:
            answer = post(message)
            if answer:
                say(answer)
        except DaycareError as error:
            if "id" in message:
                say(_failed(message["id"], _INTERNAL, error.message))
        finally:
            places.release()

    with ThreadPoolExecutor(CALLS_MAX) as pool:
        while line := sys.stdin.readline(LINE_MAX_CHARS):
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                say(_failed(None, _PARSE, "expected one message of JSON-RPC 2.0 a line"))
                continue
            places.acquire()
            pool.submit(pass_on, message)


def _failed(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
