"""A model server whose answers come piece by piece, when a test says so."""

import json
import queue
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final, Self

_PATIENCE_S: Final = 60.0


class StagedModel:
    """Streams what `says` and `calls` are told; `ends` ends an answer, `refuses` gives none.

    A call that is not streamed gets no words.
    """

    def __init__(self) -> None:
        self._frames: queue.Queue[tuple[dict[str, Any], str | None]] = queue.Queue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def base_url(self) -> str:
        """What a provider is configured with."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.ends()  # whoever still waits for words
        self._server.shutdown()
        self._server.server_close()

    def says(self, text: str) -> None:
        """Stream some words."""
        self._frames.put(({"content": text}, None))

    def calls(self, name: str, /, **arguments: Any) -> None:
        """Ask for a tool, and end this answer: the next one is asked for with its result."""
        function = {"name": name, "arguments": json.dumps(arguments)}
        self._frames.put(({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}, None))
        self.ends("tool_calls")

    def ends(self, why: str = "stop") -> None:
        """End an answer."""
        self._frames.put(({}, why))

    def refuses(self, why: str) -> None:
        """Refuse the next call, for good."""
        self._frames.put(({"refused": why}, None))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        frames = self._frames

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not asked.get("stream"):
                    choice = {"index": 0, "message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop"}
                    self._answer(200, {"id": "x", "choices": [choice]})
                    return
                delta, finish = frames.get(timeout=_PATIENCE_S)
                if "refused" in delta:
                    self._answer(422, {"error": {"message": delta["refused"]}})
                    return
                self._begin(200, "text/event-stream")
                with suppress(ConnectionError):  # the answer was stopped
                    self._stream(delta, finish)

            def _begin(self, status: int, kind: str) -> None:
                self.send_response(status)
                self.send_header("Connection", "close")
                self.send_header("Content-Type", kind)
                self.end_headers()

            def _answer(self, status: int, document: dict[str, Any]) -> None:
                self._begin(status, "application/json")
                self.wfile.write(json.dumps(document).encode())

            def _stream(self, delta: dict[str, Any], finish: str | None) -> None:
                while True:
                    choice = {"index": 0, "delta": delta, "finish_reason": finish}
                    self.wfile.write(b"data: " + json.dumps({"id": "x", "choices": [choice]}).encode() + b"\n\n")
                    self.wfile.flush()
                    if finish is not None:
                        break
                    delta, finish = frames.get(timeout=_PATIENCE_S)
                self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, *args: object) -> None:
                """Nothing: pytest's output is not a log."""

        return Handler
