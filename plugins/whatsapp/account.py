"""The account: neonize's client kept connected, its events as states, and what is asked of it.

What neonize 0.5.2 leaves to its user, as read in its source and seen offline: it dials once and returns an error; each
failed dial leaves a file open; it prints to standard output; during pairing no event comes; its errors are one text.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from neonize import events
from neonize.client import ClientFactory, NewClient
from neonize.exc import NeonizeError
from neonize.utils.enum import ChatPresence, ChatPresenceMedia, ReceiptType
from neonize.utils.jid import build_jid

from daycare.base import bridge
from daycare_plugins.whatsapp.identities import HIDDEN, PHONES, Me, NotYetError

OWN: Final = "own.json"  # which account it is, for what waits from before
SESSION: Final = "session.db"
NAME: Final = "daycare"  # of the session within the library
BACKOFF_S: Final = 1.0
BACKOFF_MAX_S: Final = 60.0
DIALS_MAX: Final = 50  # failed ones, each of which leaves a file open; then the process restarts
DRAIN_QUIET_S: Final = 0.2  # without an event; then the library holds none
DRAIN_MAX_S: Final = 1.0
QR_S: Final = 60.0  # the first code; the library gives the next ones every 20 s
REASON_MAX_CHARS: Final = 200

Tell = Callable[[bridge.Frame], None]


def reason_of(error: Exception) -> str:
    """Return what an error of the library says that a person can use: of a failed dial its cause."""
    told = " ".join(str(error).split())
    _, dialled, cause = told.rpartition("dial tcp: ")
    return f"WhatsApp cannot be reached: {cause}"[:REASON_MAX_CHARS] if dialled else told[:REASON_MAX_CHARS]


def _kept(file: Path) -> Me:
    """Return which account it was, as far as that is known."""
    try:
        told = json.loads(file.read_text())
        return Me(phone=str(told["phone"]), lid=str(told["lid"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Me()


class _Client(NewClient):  # type: ignore[misc]  # untyped
    """The library's client, which tells how pairing ended instead of printing it."""

    on_pairing: Callable[[str], None]

    def _NewClient__onLoginStatus(self, uuid: bytes, status: bytes) -> None:  # noqa: N802
        self.on_pairing(status.decode("utf-8", "replace") if isinstance(status, bytes) else str(status))


class Account:
    """One account. `heard` is called in a thread of the library with each message event, and must be quick.

    `up` is called when it is connected: who somebody is can be looked up then.
    """

    def __init__(self, folder: Path, tell: Tell, heard: Callable[[Any], None], up: Callable[[], None]) -> None:
        self.me = _kept(folder / OWN)
        self.state = bridge.CONNECTING
        self._folder = folder
        self._tell = tell
        self._heard = heard
        self._up = up
        self._heard_at = 0.0
        self._phone = ""  # to be paired by a code that is typed
        self._wanted = threading.Event()  # there is a session, or somebody wants to pair
        self._ended = threading.Event()
        self._again = threading.Event()  # dial at once
        self._seen = False  # this connection was up
        self.client = self._made()

    # == keeping it connected ==========================================================================================

    def run(self) -> None:
        """Stay connected until `stop`. Runs in a thread of its own."""
        backoff_s, dials = BACKOFF_S, 0
        while not self._ended.is_set():
            if not self._wanted.is_set() and not self._has_session():
                self._say(bridge.PAIRING, "no telephone is linked yet")
                self._wanted.wait()
                continue
            if self.state != bridge.UNREACHABLE:  # else it is known to be away until it is there again
                self._say(bridge.CONNECTING)
            self._seen = False
            try:
                self.client.connect()
                why = "the connection ended"
            except NeonizeError as error:
                why = reason_of(error)
            if self._ended.is_set():
                return
            if self.state in (bridge.LOGGED_OUT, bridge.REPLACED, bridge.PAIRING):
                self._wanted.wait()
                backoff_s = BACKOFF_S
                continue
            if self._seen:
                backoff_s = BACKOFF_S
            dials += 1
            if dials >= DIALS_MAX:
                self._say(bridge.RESTART_REQUIRED, "many dials have failed")
                return
            self._again.clear()
            self._say(bridge.UNREACHABLE, why, retry_in_s=backoff_s)
            self._again.wait(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    def stop(self) -> None:
        """End in order."""
        self._ended.set()
        self._wanted.set()
        self._again.set()
        if self.is_connected():
            self.client.disconnect()
            give_up = time.monotonic() + DRAIN_MAX_S  # what the library holds already is still to be heard
            while time.monotonic() < min(give_up, max(self._heard_at, give_up - DRAIN_MAX_S) + DRAIN_QUIET_S):
                time.sleep(0.02)
        self.client.stop()

    def login(self, phone: str) -> None:
        """Begin to pair. Raises `ValueError` if a telephone is linked."""
        if self.state == bridge.CONNECTED:
            raise ValueError("a telephone is linked already")
        self._phone = phone
        if self.state != bridge.UNREACHABLE:
            self.state = bridge.CONNECTING
        self._wanted.set()
        self._again.set()

    def logout(self) -> None:
        """Unlink the telephone if it can be reached, and forget the session in any case."""
        with suppress(NeonizeError):
            if self.is_connected():
                self.client.logout()
        self._finish(bridge.LOGGED_OUT, "logged out on request")
        self.client.stop()
        self.me = Me()
        (self._folder / OWN).unlink(missing_ok=True)
        for file in self._folder.glob(f"{SESSION}*"):
            file.unlink(missing_ok=True)
        self.client = self._made()

    def is_connected(self) -> bool:
        """Whether messages come in."""
        return self.state == bridge.CONNECTED and bool(self.client.is_connected) and bool(self.client.is_logged_in)

    def _made(self) -> _Client:
        path = self._folder / SESSION
        os.close(
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        )  # SQLite keeps the mode, for its others too
        path.chmod(0o600)
        client = _Client(str(path), uuid=NAME)
        client.on_pairing = self._paired
        client.event.qr(self._qr)
        for kind, handler in (
            (events.MessageEv, self._message),
            (events.ConnectedEv, self._connected),
            (events.DisconnectedEv, self._disconnected),
            (events.KeepAliveTimeoutEv, self._keepalive),
            (events.KeepAliveRestoredEv, self._connected),
            (events.LoggedOutEv, self._logged_out),
            (events.StreamReplacedEv, self._replaced),
            (events.TemporaryBanEv, self._banned),
            (events.ClientOutdatedEv, self._outdated),
            (events.ConnectFailureEv, self._failed),
            (events.StreamErrorEv, self._stream_error),
        ):
            client.event(kind)(handler)
        return client

    def _has_session(self) -> bool:
        return bool(ClientFactory.get_all_devices_from_db(str(self._folder / SESSION)))

    def _say(self, state: str, reason: str = "", hint: str = "", retry_in_s: float | None = None) -> None:
        self.state = state
        identity = f"+{self.me.phone}" if state == bridge.CONNECTED and self.me.phone else ""
        self._tell(bridge.State(state=state, reason=reason, hint=hint, identity=identity, retry_in_s=retry_in_s))

    def _finish(self, state: str, reason: str) -> None:
        """Say something that only somebody who pairs can change."""
        self._wanted.clear()
        self._say(state, reason)

    # == what the library calls ========================================================================================

    def _message(self, _: Any, event: Any) -> None:
        self._heard(event)
        self._heard_at = time.monotonic()

    def _connected(self, client: Any, _: Any) -> None:
        self._seen = True
        own = client.get_me()
        self.me = Me(phone=own.JID.User, lid=own.LID.User)
        (self._folder / OWN).write_text(json.dumps({"phone": self.me.phone, "lid": self.me.lid}))
        self._phone = ""
        self._say(bridge.CONNECTED)
        self._up()

    def _disconnected(self, _: Any, __: Any) -> None:
        if self.state == bridge.CONNECTED:  # the library connects again by itself
            self._say(bridge.UNREACHABLE, "the connection broke")

    def _keepalive(self, _: Any, event: Any) -> None:
        self._say(bridge.UNREACHABLE, f"WhatsApp did not answer {event.ErrorCount} times")

    def _logged_out(self, client: Any, event: Any) -> None:
        self._finish(bridge.LOGGED_OUT, f"the telephone has unlinked this device (reason {event.Reason})")
        threading.Thread(target=client.stop, daemon=True).start()  # it waits for this very call to return

    def _replaced(self, client: Any, _: Any) -> None:
        self._finish(bridge.REPLACED, "another program uses this session")
        threading.Thread(target=client.stop, daemon=True).start()

    def _banned(self, _: Any, event: Any) -> None:
        self._say(bridge.UNREACHABLE, f"WhatsApp has banned this account for a time (reason {event.Code})")

    def _outdated(self, client: Any, _: Any) -> None:
        self._say(bridge.UNREACHABLE, "WhatsApp refuses this version of the library", "pip install --upgrade neonize")

    def _failed(self, _: Any, event: Any) -> None:
        self._say(bridge.UNREACHABLE, f"WhatsApp refused the connection (reason {event.Reason})")

    def _stream_error(self, _: Any, event: Any) -> None:
        if event.Code == "515":
            self._say(bridge.RESTART_REQUIRED, "WhatsApp wants a fresh connection")

    def _qr(self, client: Any, data: bytes) -> None:
        if self.state != bridge.PAIRING:
            self._say(bridge.PAIRING)
        if not self._phone:
            self._tell(bridge.Qr(data=data.decode(), expires_in_s=QR_S))
            return
        phone, self._phone = self._phone, ""
        threading.Thread(target=self._ask_code, args=(client, phone), daemon=True).start()

    def _ask_code(self, client: Any, phone: str) -> None:
        try:
            code = client.PairPhone(phone, True)
        except NeonizeError as error:
            self._say(bridge.PAIRING, f"no code: {str(error)[:REASON_MAX_CHARS]}")
            return
        self._tell(bridge.Code(code=code))

    def _paired(self, status: str) -> None:
        if status != "success":
            why = "the codes have expired" if status == "timeout" else f"pairing ended: {status}"
            self._finish(bridge.PAIRING, why)
            threading.Thread(target=self.client.stop, daemon=True).start()

    # == what is asked of it ===========================================================================================

    def phone_of(self, lid: str) -> str:
        """Return the number of a hidden identity, empty if the library has learned of none.

        Raises `NotYetError` while it cannot be asked.
        """
        if self.state != bridge.CONNECTED:  # before that the library would end the process
            raise NotYetError
        try:
            found = self.client.get_pn_from_lid(build_jid(lid, HIDDEN))
        except NeonizeError:
            return ""
        return str(found.User) if found.Server == PHONES else ""

    def group_name(self, group: str) -> str:
        """Return what a group is called; empty if it is not to be had."""
        try:
            return str(self.client.get_group_info(build_jid(group, "g.us")).GroupName.Name)
        except NeonizeError:
            return ""

    def send(self, user: str, server: str, message: Any) -> str:
        """Send a message; return its id. Raises `NeonizeError`."""
        return str(self.client.send_message(build_jid(user, server), message).ID)

    def typing(self, user: str, server: str) -> None:
        """Show for some seconds that somebody types."""
        self.client.send_chat_presence(
            build_jid(user, server), ChatPresence.CHAT_PRESENCE_COMPOSING, ChatPresenceMedia.CHAT_PRESENCE_MEDIA_TEXT
        )

    def read(self, message: str, chat: Any, sender: Any) -> None:
        """Tell the sender that a message was read."""
        self.client.mark_read(message, chat=chat, sender=sender, receipt=ReceiptType.READ)
