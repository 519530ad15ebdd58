"""Letting other nodes know at once that there is something to look at. What gets lost they find a second later.

Texts go over the same line, which are lost where a node does not hear them: a server keeps none. A long one goes out in
numbered pieces of one commit, which a listener gets one after another.
"""

import re
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg
import trio

from daycare.base.errors import DaycareError
from daycare.store.postgres import schema
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation

COALESCE_S: Final = 0.005  # commits of so long after a word are the next one
TEXT_MAX_CHARS: Final = 400_000  # of one text: the events of a busy moment, sealed
_PIECE_CHARS: Final = 7_500  # the server takes 7,999 bytes, with the name of the node
_PIECES_MAX: Final = 1 + TEXT_MAX_CHARS // _PIECE_CHARS
TEXTS_MAX: Final = 64  # on their way out
TELL_MAX_S: Final = 5.0  # for one to go out: who waits for longer has more to do than to talk
_AGAIN_S: Final = 1.0
_CHANNEL: Final = "daycare"
_PIECE: Final = re.compile(r"text ([0-9]{1,3})/([0-9]{1,3}) ([!-~]*)")


class _Listening(PostgresConnection):
    @property
    def socket(self) -> int:
        return self._connected().socket

    def heard(self) -> list[bytes]:
        """Return what has come."""
        conn = self._connected()
        try:
            conn.consume_input()
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error
        found = []
        while (notice := conn.notifies()) is not None:
            found.append(notice.extra)
        return found


class _Text:
    """A text on its way out; `out` says whether it got there once it is `done`."""

    def __init__(self, text: str) -> None:
        self.text, self.out = text, False
        self.done = trio.Event()


class WakeLine:
    """Speaks to the other nodes, and hears them; each over a connection of its own, which is made again when lost.

    `committed` and `shards` are set when another node has committed something, or given shards away; `heard` is called
    with each text of another node, and with None when one may have been lost.
    """

    def __init__(self, location: ServerLocation, node: str) -> None:
        self._location = location
        self._node = node
        self.committed = trio.Event()
        self.shards = trio.Event()
        self.heard: Callable[[str | None], None] = lambda text: None
        self._to_say = trio.Event()
        self._of_commits = self._of_shards = False
        self._texts: deque[_Text] = deque()
        self._pieces: list[str] = []  # of the text that comes now
        self._from = ""

    def say(self, *, shards: bool = False) -> None:
        """Let the others look: for commits, or also for `shards`."""
        self._of_commits, self._of_shards = True, self._of_shards or shards
        self._to_say.set()

    async def tell(self, text: str) -> bool:
        """Let the others hear a text of ASCII without blanks; return whether it went out, within TELL_MAX_S.

        One for which nobody waits any more is not said; one that was under way just then may be heard.
        """
        if len(text) > TEXT_MAX_CHARS or len(self._texts) >= TEXTS_MAX:
            return False
        told = _Text(text)
        self._texts.append(told)
        self._to_say.set()
        try:
            with trio.move_on_after(TELL_MAX_S):
                await told.done.wait()
        finally:
            with suppress(ValueError):  # it is under way, or there
                self._texts.remove(told)
        return told.out

    async def speak(self) -> None:
        """Tell the others, until cancelled."""
        line: PostgresConnection | None = None
        try:
            while True:
                await self._to_say.wait()
                self._to_say = trio.Event()
                texts, words = list(self._texts), self._words()
                self._texts.clear()
                try:
                    with suppress(DaycareError):
                        line = await trio.to_thread.run_sync(self._spoken, line, words)
                        for told in texts:
                            told.out = True
                finally:
                    for told in texts:
                        told.done.set()
                await trio.sleep(COALESCE_S)
        finally:
            if line is not None:
                line.close()

    def _words(self) -> list[str]:
        """Return all that is to be said."""
        words = []
        if self._of_commits:
            words.append(f"{self._node} {'shards' if self._of_shards else 'commits'}")
        self._of_commits = self._of_shards = False
        for told in self._texts:
            pieces = [told.text[at : at + _PIECE_CHARS] for at in range(0, len(told.text), _PIECE_CHARS)]
            words += [f"{self._node} text {no}/{len(pieces)} {piece}" for no, piece in enumerate(pieces, 1)]
        return words

    def _spoken(self, line: PostgresConnection | None, words: list[str]) -> PostgresConnection:
        if line is None:
            line = PostgresConnection(self._location, schema.dialect())
            line.simple("SET synchronous_commit = off")
        elif not line.is_open:
            line.reopen()
        if words:
            line.simple("; ".join(f"NOTIFY {_CHANNEL}, '{each}'" for each in words))
        return line

    async def hear(self) -> None:
        """Hear the others, until cancelled."""
        while True:
            with suppress(DaycareError):
                await self._hear()
            await trio.sleep(_AGAIN_S)

    async def _hear(self) -> None:
        line = await trio.to_thread.run_sync(self._listening)
        self._pieces.clear()
        self.heard(None)  # what was said before this line was there
        try:
            while True:
                await trio.lowlevel.wait_readable(line.socket)
                for words in line.heard():
                    node, _, what = words.decode().partition(" ")
                    if node != self._node:
                        self._heed(node, what)
        finally:
            line.close()

    def _heed(self, node: str, what: str) -> None:
        if what.startswith("text "):
            self._gather(node, what)
            return
        self.committed.set()
        if what != "commits":
            self.shards.set()

    def _gather(self, node: str, what: str) -> None:
        """Put a text together: its pieces come one after another, as they were committed."""
        found = _PIECE.fullmatch(what)
        no, of = (int(found[1]), int(found[2])) if found is not None else (0, 0)
        if no == 1:
            self._pieces, self._from = [], node
        if (
            found is None
            or no != len(self._pieces) + 1
            or node != self._from
            or of * _PIECE_CHARS > TEXT_MAX_CHARS + _PIECE_CHARS
        ):
            self._pieces, self._from = [], ""
            return
        self._pieces.append(found[3])
        if no == of:
            text, self._pieces = "".join(self._pieces), []
            self.heard(text)

    def _listening(self) -> _Listening:
        line = _Listening(self._location, schema.dialect())
        line.simple(f"LISTEN {_CHANNEL}")
        return line
