"""A chat window's way to the daemon: follows events in a thread and finds the daemon again when it goes away."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from daycare.api.client import RECONNECT_S, REPLIES_PAGE, Client
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.cli.chat_screen import Screen
from daycare.cli.home import embed, usable

ADOPT_S: Final = 5.0  # another daemon takes over in less; after that this window runs the agents itself
RETRY_S: Final = 0.1  # first pause between two tries, doubled up to a second


class EventFollower:
    """Reads the events of `watched`, a path or `<path>/**`, in a thread, until `stop`; shows and confirms replies."""

    def __init__(
        self,
        home: Path,
        client: Client,
        screen: Screen,
        *,
        watched: str,
        changed: Callable[[], None],
        adopt_s: float = ADOPT_S,
        give_up_s: float = RECONNECT_S,
    ) -> None:
        self._adopt_s = adopt_s
        self._give_up_s = give_up_s
        self.failure: DaycareError | None = None
        self._home = home
        self._client = client
        self._screen = screen
        self._watched = watched
        self._changed = changed  # called after each event, and when `failure` is set
        self._stopping = threading.Event()
        self._connected = threading.Event()
        self._embedded = ExitStack()
        self._thread = threading.Thread(target=self._run, name="chat-events", daemon=True)

    def start(self, deadline_s: float) -> None:
        """Start, and return once events arrive (or the deadline has passed)."""
        self._thread.start()
        self._connected.wait(deadline_s)

    def stop(self) -> None:
        """Stop following; stops the daemon that this window had to start in the meantime."""
        self._stopping.set()
        self._embedded.close()

    def fetch(self, *, missed: bool = False) -> None:
        """Show the stored replies that are not confirmed, and confirm them."""
        for path in self._screen.heard:
            while rows := self._client.replies(path):
                confirmed = self._client.acknowledge(self._screen.show_replies(rows, missed=missed))
                if len(rows) < REPLIES_PAGE or not confirmed:
                    break

    def _run(self) -> None:
        try:
            self._follow()
        finally:
            if not self._stopping.is_set() and self.failure is None:  # a defect: its traceback is on the terminal
                self._fail(DaycareError("CHAT_BROKEN", "follow the events: the reader failed", hint="daycare chat"))

    def _follow(self) -> None:
        cursor: str | None = None
        while not self._stopping.is_set():
            try:
                for event in self._client.events(path=self._watched, after=cursor):
                    cursor = event.cursor or cursor
                    if self._screen.show_event(event):
                        self.fetch(missed=event.name == "open")
                    self._connected.set()
                    self._changed()
            except UnavailableError:
                pass  # the same as an ended stream: look for the daemon again
            except DaycareError as error:
                if cursor is None:
                    self._fail(error)
                    return
                cursor = None  # a cursor that the new daemon does not know; stored replies fill the gap
                continue
            if not self._stopping.is_set() and not self._find_again():
                return

    def _find_again(self) -> bool:
        self._screen.forget_running()
        lost_at, wait_s, told = time.monotonic(), RETRY_S, False
        while not self._stopping.wait(wait_s):
            wait_s = min(wait_s * 2, 1.0)
            away_s = time.monotonic() - lost_at
            try:
                if usable(self._client.status(), work=True):
                    if told:
                        self._note("(connected again)")
                    return True
                if not told:
                    told = True
                    self._note("(the daemon went away, looking for it again)")
                if away_s >= self._adopt_s:
                    self._adopt()
            except (BusyError, UnavailableError) as error:
                if away_s >= self._give_up_s:
                    self._fail(error)
                    return False
            except DaycareError as error:
                self._fail(error)
                return False
            if away_s >= self._give_up_s:
                self._fail(
                    UnavailableError(
                        "DAEMON_AWAY",
                        f"find the daemon of {self._home} again: none came back in {self._give_up_s:g} s",
                        hint="daycare run, then daycare chat; what you sent is kept",
                    )
                )
                return False
        return False

    def _adopt(self) -> None:
        self._embedded.close()
        if self._client.status() is None:
            embed(self._home, self._embedded, work=True)
            self._note("(this window runs the agents now, until you leave)")

    def _note(self, text: str) -> None:
        self._screen.note(text)
        self._changed()

    def _fail(self, error: DaycareError) -> None:
        self.failure = error
        self._connected.set()
        self._changed()
