"""Words between nodes, sealed: whoever may connect to the database hears them, and can neither read nor forge any.

They go over the store's line, which loses what a node does not hear in that moment. So each is numbered: who hears a
number that is not the next knows that something was lost, and one that was heard before counts for nothing.
"""

import base64
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from daycare.base.bounded import Bounded
from daycare.observe import log
from daycare.store.share import Share

if TYPE_CHECKING:
    from cryptography.fernet import Fernet  # a tenth of a second, for nodes only

_NODES_MAX: Final = 64

Hear = Callable[[str, bytes], None]


class NodeTalk:
    """Says words of a kind to all other nodes, and hears theirs; `key` is the same on all, `run` grows with each start.

    `missed` are called when words of another node may have been lost.
    """

    def __init__(self, share: Share, node: str, key: bytes, run: int) -> None:
        self._share, self._node, self._run = share, node, run
        self._key = key
        self._number = 0
        self._heard: Bounded[str, tuple[int, int]] = Bounded(_NODES_MAX)  # by node: its run, and the number
        self._hearers: dict[str, Hear] = {}
        self.missed: list[Callable[[], None]] = []
        share.heard = self._hear

    def on(self, kind: str, hear: Hear) -> None:
        """Call `hear` with the node and what it says, for words of a kind. It may not wait."""
        self._hearers[kind] = hear

    @property
    def others(self) -> int:
        """How many other nodes there are to hear, as far as this one knows."""
        return self._share.others

    async def tell(self, kind: str, words: bytes) -> bool:
        """Say something to all other nodes; return whether it went out."""
        if not self.others:
            return False
        self._number += 1  # no await until the line has it: words go out in this order
        head = f"{self._node} {self._run} {self._number} {kind} ".encode()
        return await self._share.tell(self._sealer.encrypt(head + words).decode())

    def _hear(self, text: str | None) -> None:
        from cryptography.fernet import InvalidToken

        if text is None:
            self._miss()
            return
        try:
            opened = self._sealer.decrypt(text.encode())
        except InvalidToken:
            return  # somebody else's, who may connect to the database
        node, run, number, kind, words = opened.split(b" ", 4)
        if not self._is_new(node.decode(), int(run), int(number)):
            return
        try:
            self._hearers[kind.decode()](node.decode(), words)
        except (msgspec.MsgspecError, KeyError) as error:
            log.logger().warning("node.not_understood", node=node.decode(), kind=kind.decode(), reason=repr(error))

    def _is_new(self, node: str, run: int, number: int) -> bool:
        """Whether a word is none that was heard before. Whoever is heard for the first time has said more before."""
        before = self._heard.get(node, (0, 0))
        if (run, number) <= before:
            return False
        self._heard[node] = run, number
        if number != (before[1] + 1 if run == before[0] else 1):
            self._miss()
        return True

    def _miss(self) -> None:
        for missed in self.missed:
            missed()

    @cached_property
    def _sealer(self) -> "Fernet":
        from cryptography.fernet import Fernet

        return Fernet(base64.urlsafe_b64encode(self._key))
