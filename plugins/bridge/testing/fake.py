"""A bridge to a messenger that does not exist: a real process that speaks the real protocol, and obeys a test.

    python -m daycare_plugins.bridge.testing.fake                      # an echo: what is sent to somebody comes back
    python -m daycare_plugins.bridge.testing.fake --platform SOCKET    # the messenger is `platform`, beside it

Its folder is the working directory. The platform may also tell it to misbehave: to say garbage, to be silent, to die at
a point of its work.
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from daycare.base import bridge
from daycare.base.spool import SentKeys, Spool

ABLE: Final = (
    *(bridge.TYPING, bridge.EDITS, bridge.DELETIONS, bridge.REACTIONS, bridge.FILES, bridge.FETCH),
    *(bridge.LOGIN, bridge.ECHO),
)
CODE_S: Final = 1.0  # between two codes
PLATFORM_S: Final = 10.0  # for the platform to take something


class FakeBridge:
    """The process. Threads read standard input and the platform; `_say` writes."""

    def __init__(self, platform: str, hello: bridge.Hello, codes: int = 0, record: str = "") -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        self._writing = threading.Lock()
        self._recorded = Path(record) if record else None
        self._stating = threading.RLock()
        self._spool = Spool(Path("spool.jsonl"))
        self._sent = SentKeys(Path("sent.jsonl"))
        self._hello = hello
        self._state = bridge.PAIRING if codes else bridge.CONNECTED
        self._codes = codes
        self._room = 0  # how many more may be offered
        self._offered: set[str] = set()
        self._offering = threading.RLock()
        self._die_at = ""
        self._troubles: list[str] = []  # of the next sendings
        self._mute = False
        self._platform = _Platform(platform, self) if platform else None

    def run(self) -> None:
        """Serve until the end of standard input."""
        self._say(self._hello)
        if self._codes:
            self.state(bridge.PAIRING, reason="no telephone is linked yet")
        elif self._platform is None:
            self.state(bridge.CONNECTED, identity="echo")
        else:
            threading.Thread(target=self._platform.run, daemon=True).start()
        lines = bridge.Lines()
        while data := os.read(0, 65_536):
            for line in lines.feed(data):
                self._record("to_bridge", line)
                try:
                    frame = bridge.to_bridge(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue  # of a later version, or none
                if isinstance(frame, bridge.Stop):
                    return
                self._serve(frame)

    def state(self, state: str, *, identity: str = "", reason: str = "") -> None:
        """Say how the platform is."""
        with self._stating:
            self._state = state
            self._say(bridge.State(state=state, identity=identity, reason=reason))

    def reached(self) -> None:
        """The platform is there; whoever pairs meanwhile is not disturbed."""
        with self._stating:
            if self._state != bridge.PAIRING:
                self.state(bridge.CONNECTED, identity="fake")

    def arrived(self, frame: dict[str, Any]) -> None:
        """Keep what came, and offer it. When this returns, the platform may forget it."""
        self._spool.put(frame["id"], frame)
        self.point("spooled")
        self._offer()

    def obey(self, order: dict[str, Any]) -> None:
        """Do what a test wants."""
        match order["do"]:
            case "garbage":
                for number in range(int(order.get("lines", 1))):
                    self._raw(os.urandom(40).replace(b"\n", b" ") + b'{"type":%d}\n' % number)
            case "long":
                left = int(order["bytes"])
                with self._writing:
                    while left > 0:
                        self._all(b"x" * min(left, 1 << 20))
                        left -= 1 << 20
                    self._all(b"\n")
            case "raw":
                self._raw(order["line"].encode() + b"\n")
            case "state":
                self.state(order["state"], reason=order.get("reason", ""))
            case "qr":
                self._say(bridge.Qr(data=order["data"], expires_in_s=float(order.get("expires_in_s", 20.0))))
            case "stderr":
                sys.stderr.write(order["text"] + "\n")
                sys.stderr.flush()
            case "mute":
                self._mute = True
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "exit":
                os._exit(int(order.get("code", 1)))
            case "trouble":
                self._troubles.append(order["kind"])
            case "die_at":
                self._die_at = order["point"]

    def point(self, name: str) -> None:
        """Die here if a test wants it."""
        if self._die_at == name:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)

    # -- the protocol --------------------------------------------------------------------------------------------------

    def _serve(self, frame: bridge.ToBridge) -> None:
        if self._mute:
            return
        match frame:
            case bridge.Welcome():
                with self._offering:
                    self._room = frame.unacknowledged_max
                self._offer()
            case bridge.Ack():
                self._acknowledged(frame.ids)
            case bridge.Ping():
                self._say(bridge.Result(id=frame.id, state=self._state))
            case bridge.Send():
                self._send(frame)
            case bridge.Fetch() if frame.reference == "no-such-file":
                self._say(bridge.Failed(id=frame.id, code=bridge.GONE, message="it was deleted"))
            case bridge.Fetch():
                Path("in").mkdir(exist_ok=True)
                path = Path("in") / f"fetched-{frame.id}"
                path.write_bytes(frame.reference.encode())
                self._say(bridge.Result(id=frame.id, path=str(path)))
            case bridge.Login():
                self._login(frame)
            case bridge.Logout():
                self._say(bridge.Result(id=frame.id))
                self.state(bridge.LOGGED_OUT, reason="logged out on request")
            case bridge.Edit() | bridge.Delete() | bridge.React() | bridge.Typing():
                if self._platform is not None:
                    self._platform.tell({"shown": bridge.plain(frame)})
                self._say(bridge.Result(id=frame.id))

    def _login(self, frame: bridge.Login) -> None:
        self.state(bridge.PAIRING)
        if frame.phone:
            self._say(bridge.Code(code="ABCD-1234"))
        else:
            self._say(bridge.Qr(data="2@fake-code", expires_in_s=20.0))
        if self._codes:
            threading.Thread(target=self._pair, daemon=True).start()
        self._say(bridge.Result(id=frame.id))

    def _pair(self) -> None:
        """Let codes expire, and then somebody use one."""
        for number in range(1, self._codes):
            time.sleep(CODE_S)
            self._say(bridge.Qr(data=f"2@fake-code-{number}", expires_in_s=CODE_S))
        time.sleep(CODE_S)
        self.state(bridge.CONNECTED, identity="echo")

    def _send(self, frame: bridge.Send) -> None:
        if self._state != bridge.CONNECTED:
            self._say(bridge.Failed(id=frame.id, code=bridge.AWAY, message=f"it is {self._state}"))
            return
        trouble = self._troubles.pop(0) if self._troubles else ""
        if trouble in ("busy", "gone"):
            code, wait_s = (bridge.BUSY, 1.0) if trouble == "busy" else (bridge.GONE, None)
            self._say(bridge.Failed(id=frame.id, code=code, message="on order", retry_after_s=wait_s))
            return
        receipt = self._sent.get(frame.key)
        if not receipt:
            unsure = receipt is not None
            self._sent.begin(frame.key)
            self.point("sending")
            text = f"{frame.mark}\n{frame.text}" if frame.mark and unsure else frame.text
            receipt = self._platform.send(frame, text) if self._platform else f"e{time.time_ns()}"
            if not receipt:
                self._sent.undo(frame.key)
                self._say(bridge.Failed(id=frame.id, code=bridge.UNKNOWN, message="the platform did not answer"))
                return
            self.point("sent")
            self._sent.sent(frame.key, receipt)
            if self._platform is None:
                self._echo(frame, receipt)
        self.point("answering")
        if trouble == "lost":
            self._say(bridge.Failed(id=frame.id, code=bridge.UNKNOWN, message="on order"))
        elif trouble != "stalled":
            self._say(bridge.Result(id=frame.id, receipt=receipt))

    def _echo(self, frame: bridge.Send, receipt: str) -> None:
        files = []
        for number, file in enumerate(frame.files):
            Path("in").mkdir(exist_ok=True)
            path = Path("in") / f"{receipt}-{number}"
            path.write_bytes(Path(file.path).read_bytes())
            files.append(bridge.FileAt(name=file.name, media_type=file.media_type, path=str(path)))
        said = bridge.Said(
            id=f"echo:{receipt}", sender=frame.to, text=frame.text, files=tuple(files), message=receipt, name="Echo"
        )
        self.arrived(bridge.plain(said))

    # -- what came in --------------------------------------------------------------------------------------------------

    def _offer(self) -> None:
        """Offer what waits, as far as there is room for it."""
        with self._offering:
            for id_, data in self._spool.waiting():
                if len(self._offered) >= self._room:
                    return
                if id_ not in self._offered:
                    self._offered.add(id_)
                    self._write(json.dumps(data).encode() + b"\n")
                    self.point("offered")

    def _acknowledged(self, ids: tuple[str, ...]) -> None:
        if self._platform is not None:
            self._platform.tell({"acknowledged": ids})
        self.point("acknowledged")
        with self._offering:
            self._offered.difference_update(ids)
        for data in self._spool.done(ids):
            for file in data.get("files", ()):
                if file.get("path"):
                    Path(file["path"]).unlink(missing_ok=True)
        self._offer()

    def _say(self, frame: bridge.Frame) -> None:
        self._write(bridge.encode(frame))

    def _write(self, line: bytes) -> None:
        """Say a frame; what a test makes it say beside these is not recorded."""
        self._record("from_bridge", line)
        self._raw(line)

    def _record(self, direction: str, line: bytes) -> None:
        if self._recorded is not None:
            with self._recorded.open("ab", buffering=0) as file:
                file.write(json.dumps([direction, line.decode("utf-8", "replace")]).encode() + b"\n")

    def _raw(self, line: bytes) -> None:
        if not self._mute:
            with self._writing:
                self._all(line)

    def _all(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._out.write(view) :]
        except BrokenPipeError:
            os._exit(0)  # nobody listens


class _Platform:
    """The way to the fake platform: JSON lines over a socket; what it has is asked for again after each connection."""

    def __init__(self, path: str, owner: FakeBridge) -> None:
        self._path = path
        self._owner = owner
        self._socket: socket.socket | None = None
        self._answers: dict[str, tuple[threading.Event, list[str]]] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Stay connected; end with the process."""
        while True:
            try:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(self._path)
                    self._socket = connection
                    self._tell({"hello": os.getpid()})
                    self._owner.reached()
                    with connection.makefile("rb") as lines:
                        for line in lines:
                            self._heard(json.loads(line))
            except OSError as error:
                self._socket = None
                self._owner.state(bridge.UNREACHABLE, reason=str(error))
            time.sleep(0.1)

    def _heard(self, told: dict[str, Any]) -> None:
        if "message" in told:
            self._owner.arrived(told["message"])
            self._tell({"took": told["message"]["id"]})
        elif "do" in told:
            self._owner.obey(told)
            self._tell({"obeyed": told["do"]})
        elif "sent" in told:
            waiting = self._answers.get(told["sent"])
            if waiting is not None:
                waiting[1].append(told["receipt"])
                waiting[0].set()

    def send(self, frame: bridge.Send, text: str) -> str:
        """Send; return the receipt, empty if there was none in time."""
        done: tuple[threading.Event, list[str]] = (threading.Event(), [])
        self._answers[frame.key] = done
        files = [{"name": file.name, "size": Path(file.path).stat().st_size} for file in frame.files]
        try:
            self._tell({"send": {"key": frame.key, "to": frame.to, "text": text, "mark": frame.mark, "files": files}})
            done[0].wait(PLATFORM_S)
        except OSError:
            return ""
        finally:
            del self._answers[frame.key]
        return done[1][0] if done[1] else ""

    def tell(self, what: dict[str, Any]) -> None:
        """Pass on what nobody waits for."""
        try:
            self._tell(what)
        except OSError:
            pass

    def _tell(self, what: dict[str, Any]) -> None:
        connection = self._socket
        if connection is None:
            raise ConnectionError("there is no platform")
        with self._lock:
            connection.sendall(json.dumps(what).encode() + b"\n")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser("python -m daycare_plugins.bridge.testing.fake")
    parser.add_argument("--platform", default="")
    parser.add_argument("--without", default="", help="capabilities to leave out, with commas")
    parser.add_argument("--codes", type=int, default=0, help="not paired at first; so many codes are shown")
    parser.add_argument("--record", default="", help="a file for the lines of both directions, with their direction")
    chosen = parser.parse_args()
    able = tuple(one for one in ABLE if one not in chosen.without.split(","))
    if chosen.platform:
        able = tuple(one for one in able if one != bridge.ECHO)
    FakeBridge(
        chosen.platform, bridge.Hello(version=1, name="fake", capabilities=able), chosen.codes, chosen.record
    ).run()


if __name__ == "__main__":
    main()
