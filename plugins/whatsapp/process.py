"""The bridge's process: the protocol on standard input and output, the account in threads.

What comes in is on disk, as the library gave it, before the library's callback returns. What it means is found out
later, so that a mistake in that costs nothing.
"""

import base64
import os
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from daycare.base import bridge
from daycare.base.bounded import Bounded
from daycare.base.spool import SentKeys, Spool
from daycare_plugins.whatsapp.identities import MINE, NotYetError, referred, target
from daycare_plugins.whatsapp.reading import event_id, read

WORKERS: Final = 4  # a long upload keeps no ping waiting
NAMES_MAX: Final = 200  # of groups, remembered
DISK_AGAIN_S: Final = 1.0  # while it is full
STOP_S: Final = 2.0  # for the account to end
ABLE: Final = (
    *(bridge.TYPING, bridge.EDITS, bridge.DELETIONS, bridge.REACTIONS, bridge.FILES, bridge.FETCH, bridge.LOGIN),
)
_AWAY_SIGNS: Final = ("not connected", "websocket", "not logged in", "no session", "client not found")


class WhatsApp:
    """The process. `out` is where frames go."""

    def __init__(self, folder: Path, out: int) -> None:
        self._folder = folder
        self._out = os.fdopen(out, "wb", buffering=0)
        self._writing = threading.Lock()
        self._offering = threading.RLock()
        self._spool = Spool(folder / "spool.jsonl")
        self._sent = SentKeys(folder / "sent.jsonl")
        self._offered: set[str] = set()
        self._room = 0
        self._names: Bounded[str, str] = Bounded(NAMES_MAX)
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="request")
        self._account: Any = None  # the library takes a second to import, or is not there
        self._problem = ""

    def run(self, source: int) -> None:
        """Serve until the end of input or `stop`."""
        self.say(
            bridge.Hello(
                version=bridge.VERSION, name="whatsapp", software=_software(), capabilities=ABLE, typing_s=10.0
            )
        )
        lines = bridge.Lines()
        threading.Thread(target=self._begin, daemon=True).start()
        while data := os.read(source, 65_536):
            for line in lines.feed(data):
                try:
                    frame = bridge.to_bridge(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue
                if isinstance(frame, bridge.Stop):
                    self.stop()
                    return
                self._serve(frame)
        self.stop()

    def stop(self) -> None:
        """End the connection in order, as far as that is quick; everything that counts is on disk."""
        account = self._account
        if account is not None:
            ending = threading.Thread(target=account.stop, daemon=True)
            ending.start()
            ending.join(STOP_S)

    def say(self, frame: bridge.Frame) -> None:
        """Write a frame."""
        self._write(bridge.encode(frame))

    def _write(self, line: bytes) -> None:
        with self._writing:
            view = memoryview(line)
            try:
                while view:
                    view = view[self._out.write(view) :]
            except BrokenPipeError:
                os._exit(0)  # nobody listens

    # == in ============================================================================================================

    def _begin(self) -> None:
        """Bring the library in, and connect."""
        try:
            account = import_module("daycare_plugins.whatsapp.account").Account(
                self._folder, self.say, self.heard, lambda: self._pool.submit(self._offer)
            )
        except Exception as error:  # noqa: BLE001 -- it fails in its own ways: a missing libmagic, another protobuf
            self._problem = f"neonize cannot be used: {type(error).__name__}: {str(error)[:200]}"
            self.say(
                bridge.State(
                    state=bridge.UNREACHABLE, reason=self._problem, hint="pip install 'daycare[whatsapp]', libmagic"
                )
            )
            return
        self._account = account
        self._offer()
        account.run()

    def heard(self, event: Any) -> None:
        """Keep an event. Called by the library; when this returns it may forget it."""
        raw = base64.b64encode(event.SerializePartialToString()).decode()
        id_ = event_id(event)
        edit = event.Info.Edit or ""
        kept = f"{id_}:{edit}" if edit else id_
        told = False
        while True:
            try:
                self._spool.put(kept, {"raw": raw})
                break
            except OSError as error:  # WhatsApp believes that we have it: there is nothing better than to wait
                if not told:
                    told = True
                    self.say(bridge.Note(level="error", text=f"a message cannot be kept: {error.strerror}"))
                time.sleep(DISK_AGAIN_S)
        self._pool.submit(self._offer)  # it may have to ask WhatsApp something

    def _offer(self) -> None:
        """Offer what waits, as far as there is room; what is nothing to a conversation is done at once."""
        nothing: list[str] = []
        with self._offering:
            for kept, data in self._spool.waiting():
                if len(self._offered) >= self._room or self._account is None or not self._account.me.phone:
                    break
                if kept in self._offered:
                    continue
                try:
                    frame = self._meaning(kept, data)
                except NotYetError:
                    break  # all that came later waits with it
                if frame is None:
                    nothing.append(kept)
                    continue
                self._offered.add(kept)
                self.say(frame)
        if nothing:
            self._spool.done(tuple(nothing))

    def _meaning(self, kept: str, data: dict[str, Any]) -> bridge.Frame | None:
        from neonize.proto.Neonize_pb2 import Message as Event

        raw = base64.b64decode(data["raw"])
        try:
            event = Event.FromString(raw)
            source = event.Info.MessageSource
            name = self._group_name(source.Chat.User) if source.IsGroup else ""
            frame = read(event, self._account.me, self._account.phone_of, name)
        except NotYetError:
            raise
        except Exception as error:  # noqa: BLE001 -- one message that makes trouble keeps no other out
            return bridge.Unread(id=kept, reason=f"reading a message: {type(error).__name__}: {error}")
        if isinstance(frame, bridge.Unread):
            self.say(bridge.Note(level="warning", text=f"a message was refused: {frame.reason}"))
        return None if frame is None else msgspec.structs.replace(frame, id=_offered_id(kept, frame))

    def _group_name(self, group: str) -> str:
        if group not in self._names:
            self._names[group] = self._account.group_name(group) if self._account.is_connected() else ""
        return self._names[group]

    def _acknowledged(self, ids: tuple[str, ...]) -> None:
        kept = tuple(_kept_id(id_) for id_ in ids)
        with self._offering:
            self._offered.difference_update(kept)
        done = self._spool.done(kept)
        self._pool.submit(self._mark_read, done)
        self._offer()

    def _mark_read(self, done: list[dict[str, Any]]) -> None:
        """Let senders see that their messages were read: only now, when they cannot be lost any more."""
        from neonize.proto.Neonize_pb2 import Message as Event

        for data in done:
            event = Event.FromString(base64.b64decode(data["raw"]))
            source = event.Info.MessageSource
            if self._account is None or not self._account.is_connected() or source.IsFromMe:
                continue
            try:
                self._account.read(event.Info.ID, source.Chat, source.Sender)
            except Exception as error:  # noqa: BLE001 -- the library raises what it likes, and it is only a tick
                self.say(bridge.Note(level="debug", text=f"marking as read: {type(error).__name__}"))

    # == asked for =====================================================================================================

    def _serve(self, frame: bridge.ToBridge) -> None:
        match frame:
            case bridge.Welcome():
                with self._offering:
                    self._room = frame.unacknowledged_max
                self._pool.submit(self._offer)
            case bridge.Ack():
                self._acknowledged(frame.ids)
            case bridge.Ping():
                state = self._account.state if self._account is not None else bridge.CONNECTING
                self.say(bridge.Result(id=frame.id, state=bridge.UNREACHABLE if self._problem else state))
            case bridge.Stop():
                pass
            case _:
                self._pool.submit(self._answer, frame)

    def _answer(self, frame: bridge.Request) -> None:
        try:
            self.say(self._done(frame))
        except ValueError as error:
            self.say(bridge.Failed(id=frame.id, code=bridge.INVALID, message=str(error)))
        except Exception as error:  # noqa: BLE001 -- the library's errors are one text each
            self.say(
                bridge.Failed(id=frame.id, code=_code(str(error)), message=f"{type(error).__name__}: {error}"[:200])
            )

    def _done(self, frame: bridge.Request) -> bridge.Result | bridge.Failed:
        account = self._account
        if account is None:
            return bridge.Failed(id=frame.id, code=bridge.AWAY, message=self._problem or "it is just starting")
        match frame:
            case bridge.Login():
                account.login(frame.phone)
                return bridge.Result(id=frame.id)
            case bridge.Logout():
                account.logout()
                return bridge.Result(id=frame.id)
        if not account.is_connected():
            return bridge.Failed(id=frame.id, code=bridge.AWAY, message=f"it is {account.state}")
        match frame:
            case bridge.Send():
                return self._send(frame)
            case bridge.Fetch():
                return self._fetch(frame)
            case bridge.Typing():
                account.typing(*target(frame.to))
            case bridge.React() | bridge.Edit() | bridge.Delete():
                self._change(frame)
        return bridge.Result(id=frame.id)

    def _send(self, frame: bridge.Send) -> bridge.Result:
        """Send once for each key. Whether what was begun and not seen to end was sent, nobody knows: it gets a mark."""
        known = self._sent.get(frame.key)
        if known:
            return bridge.Result(id=frame.id, receipt=known)
        to = target(frame.to)
        message = self._message(
            frame, f"{frame.mark}\n{frame.text}" if known is not None and frame.mark else frame.text
        )
        self._sent.begin(frame.key)
        try:
            receipt = f"{self._account.send(*to, message)}/{MINE}"
        except Exception as error:
            if _code(str(error)) != bridge.UNKNOWN:
                self._sent.undo(frame.key)
            raise
        self._sent.sent(frame.key, receipt)
        return bridge.Result(id=frame.id, receipt=receipt)

    def _message(self, frame: bridge.Send, text: str) -> Any:
        from daycare_plugins.whatsapp import writing

        if frame.files:
            ffmpeg = shutil.which("ffmpeg") is not None and shutil.which("ffprobe") is not None
            return writing.file(self._account.client, self._folder, frame.files[0], text, ffmpeg=ffmpeg)
        return writing.text(text, frame.reply_to, self._account.me)

    def _change(self, frame: bridge.React | bridge.Edit | bridge.Delete) -> None:
        from daycare_plugins.whatsapp import writing

        to = target(frame.to)
        if not isinstance(frame, bridge.React) and referred(frame.message)[1] != MINE:
            raise ValueError("only what was sent from here can be changed")
        match frame:
            case bridge.React():
                message = writing.reaction(to, frame.message, frame.emoji)
            case bridge.Edit():
                message = writing.edit(to, frame.message, frame.text)
            case bridge.Delete():
                message = writing.revoke(to, frame.message)
        self._account.send(*to, message)

    def _fetch(self, frame: bridge.Fetch) -> bridge.Result | bridge.Failed:
        from neonize.proto.waE2E.WAWebProtobufsE2E_pb2 import Message

        message = Message.FromString(base64.urlsafe_b64decode(frame.reference))
        data = self._account.client.download_any(message)
        if len(data) > frame.max_bytes:
            return bridge.Failed(id=frame.id, code=bridge.INVALID, message="the file is too large")
        (self._folder / "in").mkdir(exist_ok=True)
        path = self._folder / "in" / f"fetched-{frame.id}"
        path.write_bytes(data)
        return bridge.Result(id=frame.id, path=str(path.relative_to(self._folder)))


def _offered_id(kept: str, frame: Any) -> str:
    """Return the id of a frame; what it is kept under stands before it, for the acknowledgement."""
    return f"{kept}|{frame.id}" if frame.id != kept else kept


def _kept_id(id_: str) -> str:
    return id_.partition("|")[0]


def _code(reason: str) -> str:
    lower = reason.lower()
    if any(sign in lower for sign in _AWAY_SIGNS):
        return bridge.NOT_SENT
    if "server returned error 4" in lower:
        return bridge.FORBIDDEN
    return bridge.UNKNOWN


def _software() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"neonize {version('neonize')}"
    except PackageNotFoundError:
        return "neonize is not installed"


def main() -> None:
    """Run in the working directory. The library prints to standard output, which is therefore standard error's now."""
    os.umask(0o077)
    out = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    WhatsApp(Path.cwd(), out).run(0)
    os._exit(0)  # the library's threads end with nobody
