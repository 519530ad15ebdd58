"""A daemon for tests of the CLI: the routes of doc/extend/api.md on a real Unix socket, agents that obey the test.

Agents answer `echo: TEXT` at once; with `held` set, a turn runs until `release` or a stop. What is in
`canned`, (method, route) -> (status, document), is answered from there. `requests` remembers every call.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
OWNER = "/ann/direct"
TICK_S = 15.0


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64
    fake: "FakeDaemon"


class FakeDaemon:
    def __init__(self, home: Path, *, pid: int = 4242, working: bool = True, first: int = 1) -> None:
        self.socket = home / "daycare.sock"
        self.first = first  # number of the first message, turn and reply: a store never gives one out twice
        self.now_ms = 1_700_000_000_000
        self.status: Json = {
            "version": "0.1.0", "pid": pid, "home": str(home), "started_at": time.time_ns() // 1_000_000, "user": "ann",
            "working": working, "stopping": False,
            "agents": {"living": 1, "parked": 0, "dead": 0, "awake": 0, "in_turn": 0},
            "inbox_waiting": 0, "outbox_waiting": 0, "dead_letters": 0,
            "store": {"location": "daycare.db", "bytes": 4096, "trouble": None},
            "models": {"default": "offline/rules"}, "providers": ["offline"],
            "connectors": {"direct": {"state": "up"}}, "strangers": 0, "spent": {},
        }  # fmt: skip
        self.canned: dict[tuple[str, str], tuple[int, Json]] = {}
        self.requests: list[tuple[str, str, Json, Any]] = []
        self.messages: dict[str, Json] = {}  # by key
        self.outbox: list[Json] = []
        self.events: list[tuple[str, Json]] = []
        self.held = False
        self.drop_connections = 0  # so many posts are committed and then not answered
        self.tools: list[str] = []
        self.closing = False
        self.on_shutdown: list[Json] = []
        self.changed = threading.Condition()
        self._turns = first - 1
        self._server: _Server | None = None

    # -- life ----------------------------------------------------------------------------------------------------------

    def __enter__(self) -> "FakeDaemon":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self.closing = False
        self._server = _Server(str(self.socket), _Handler)
        self._server.fake = self
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
            server, self._server = self._server, None  # a test may stop it in a thread while another ends
        if server is not None:
            self.socket.unlink(missing_ok=True)
            server.shutdown()
            server.server_close()

    # -- what tests do and look at ---------------------------------------------------------------------------------

    def emit(self, name: str, path: str = OWNER, **fields: Any) -> None:
        with self.changed:
            self.events.append((name, {"event": name, "at_ms": self.now_ms, "path": path, **fields}))
            self.changed.notify_all()

    def reply(self, text: str, path: str = OWNER, turn: int | None = None) -> Json:
        with self.changed:
            row = {
                "seq": self.first + 100 + len(self.outbox), "agent_id": "a1", "path": path, "user": "ann",
                "connector": "direct", "target": None, "text": text, "trace": "t", "turn": turn,
                "state": "waiting", "attempts": 0, "retry_at": 0, "created_at": self.now_ms,
            }  # fmt: skip
            self.outbox.append(row)
            return row

    def release(self, text: str | None = None) -> None:
        """Finish the held turn."""
        with self.changed:
            self.held = False
            waiting = [message for message in self.messages.values() if message["state"] == "waiting"]
        for message in waiting:
            self.finish(message, text or f"echo: {message['text']}")

    def finish(self, message: Json, reply: str, *, stopped: bool = False) -> None:
        row = self.reply(reply, message["path"], message["turn"])
        with self.changed:
            message.update(state="stopped" if stopped else "done", result=reply, replies=[row])
        self.emit(
            "turn.finished", message["path"], turn=message["turn"], reply=reply, seqs=[message["seq"]], stopped=stopped
        )

    def wait_for(self, what: Any, deadline_s: float = 10.0) -> None:
        """Wait until `what()` is true; it is looked at whenever something was called or changed."""
        with self.changed:
            assert self.changed.wait_for(what, deadline_s), f"did not come true in {deadline_s} s: {self.requests[-5:]}"

    def called(self, method: str, route: str) -> list[tuple[Json, Any]]:
        return [(query, body) for verb, path, query, body in self.requests if (verb, path) == (method, route)]

    @property
    def unconfirmed(self) -> list[str]:
        return [row["text"] for row in self.outbox if row["state"] == "waiting"]

    # -- routes --------------------------------------------------------------------------------------------------------

    def answer(self, method: str, route: str, query: Json, body: Any) -> tuple[int, Json]:
        if (method, route) in self.canned:
            return self.canned[method, route]
        match method, route:
            case "GET", "/v1/status":
                return 200, self.status
            case "GET", "/v1/plugins":
                return 200, {"plugins": []}
            case "POST", "/v1/messages":
                return self._message(body)
            case "GET", "/v1/replies":
                rows = [row for row in self.outbox if row["state"] == "waiting" and row["path"] == query["path"]]
                return 200, {"replies": rows}
            case "POST", "/v1/replies/ack":
                for row in self.outbox:
                    if row["seq"] in body["seqs"]:
                        row["state"] = "sent"
                return 200, {"acknowledged": len(body["seqs"])}
            case "POST", "/v1/shutdown":
                with self.changed:
                    self.on_shutdown.append(body)
                return 202, {}
        missing = {"code": "NOT_FOUND", "message": f"find {route}: it does not exist", "hint": "daycare agents"}
        return 404, {"error": missing}

    def _message(self, body: Json) -> tuple[int, Json]:
        with self.changed:
            duplicate = body["key"] in self.messages
            message = self.messages.setdefault(
                body["key"],
                {
                    "seq": self.first + len(self.messages), "agent_id": "a1", "path": body.get("path") or OWNER,
                    "trace": "t", "state": "waiting", "result": None, "text": body["text"], "turn": 0, "replies": [],
                },
            )  # fmt: skip
        if not duplicate and self.status["working"]:
            self._take_turn(message)
        if body.get("wait_s"):
            with self.changed:
                self.changed.wait_for(lambda: message["state"] != "waiting" or self.closing, body["wait_s"])
        answer = {name: message[name] for name in ("seq", "agent_id", "path", "trace", "state", "result")}
        answer["duplicate"] = duplicate
        done = body.get("wait_s") and message["state"] in ("done", "stopped")
        return (200, answer | {"replies": message["replies"]}) if done else (202, answer)

    def _take_turn(self, message: Json) -> None:
        if message["text"] == "/stop":
            for running in list(self.messages.values()):
                if running["state"] == "waiting" and running is not message:
                    self.finish(running, "[stopped]", stopped=True)
        if message["text"].startswith("/"):
            row = self.reply(f"command {message['text']}", message["path"])
            with self.changed:
                message.update(state="done", result=row["text"], replies=[row])
            return
        self._turns += 1
        message["turn"] = self._turns
        self.emit("turn.started", message["path"], turn=self._turns, attempt=1, messages=1)
        for step, tool in enumerate(self.tools):
            self.emit("tool.started", message["path"], turn=self._turns, step=step, tool=tool)
            self.emit("tool.finished", message["path"], turn=self._turns, step=step, tool=tool, status="ok")
        if not self.held:
            for piece in ("echo: ", message["text"]):
                self.emit("turn.delta", message["path"], turn=self._turns, text=piece)
            self.finish(message, f"echo: {message['text']}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def fake(self) -> FakeDaemon:
        assert isinstance(self.server, _Server)
        return self.server.fake

    def _serve(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        with self.fake.changed:
            self.fake.requests.append((self.command, url.path, query, body))
            self.fake.changed.notify_all()
        if url.path == "/v1/events":
            return self._stream(query)
        status, document = self.fake.answer(self.command, url.path, query, body)
        with self.fake.changed:
            self.fake.changed.notify_all()
            if url.path == "/v1/messages" and self.fake.drop_connections:
                self.fake.drop_connections -= 1
                self.close_connection = True
                return None
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        return None

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _stream(self, query: Json) -> None:
        fake = self.fake
        types = query["types"].split(",") if "types" in query else None
        position = int(query["after"]) if "after" in query else len(fake.events)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while not fake.closing:
            with fake.changed:
                fresh = fake.changed.wait_for(lambda at=position: len(fake.events) > at or fake.closing, TICK_S)  # type: ignore[misc]
                rows = fake.events[position:]
            text = "" if fresh else ": alive\n\n"
            for name, data in rows:
                position += 1
                wanted = str(query.get("path", data["path"])).removesuffix("**")
                there = data["path"].startswith(wanted) if wanted.endswith("/") else data["path"] == wanted
                if there and (types is None or name in types):
                    text += f"id: {position}\nevent: {name}\ndata: {json.dumps(data)}\n\n"
            try:
                self.wfile.write(text.encode())
                self.wfile.flush()
            except OSError:
                return

    def address_string(self) -> str:
        return "local"

    def log_message(self, *_: object) -> None:
        pass
