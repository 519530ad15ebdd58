"""Whose work is done here: everybody's, or where several nodes work on one database that of the users in their shards.

A shard is a number that a user's name gives, the same on every node. A part of the daemon that only one node may run
(what polls a messenger, what fires timers) has a name, a role, which falls into a shard as a user does. So shards are
all that is given, taken and lost.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import trio

SHARDS: Final = 256
_CURSORS: Final = 4_000_000_000_000
LET_GO_S: Final = 5.0  # for what is cancelled to end: nothing of it waits for others

Owns = Callable[[str], bool]
Heard = Callable[[str | None], None]
Gained = Callable[[Sequence[str]], None]


def everybody(user: str) -> bool:
    """Whether a user is among all users."""
    return True


def shard_of(user: str) -> int:
    """Return the shard of a user; PostgreSQL computes it likewise."""
    return hashlib.sha256(user.encode()).digest()[0]


def chosen(shard: int, nodes: tuple[str, ...]) -> str:
    """Return which of some nodes is to have a shard: every node comes to the same answer, and few change with one."""
    return max(nodes, key=lambda node: hashlib.sha256(f"{node}/{shard}".encode()).digest())


def first_cursor(node: str) -> int:
    """Return how far the cursors of a node's events lie behind those of others, so that one is not taken for another's.

    A cursor is below 2**53, which JavaScript can count to: there is room for a thousand nodes that run until 2096.
    """
    return _CURSORS * (1 + int.from_bytes(hashlib.sha256(node.encode()).digest()[:4]) % 1_000) if node else 0


class Share:
    """The share of a process that works alone: everything, for as long as it runs."""

    several: ClassVar = False
    node = ""
    may_write = True  # what ends here is written by nobody else

    def __init__(self) -> None:
        self.ended: Callable[[str], None] = lambda why: None  # called once nothing more can be done from here
        self.heard: Heard = lambda text: None  # called with what another node tells; None: something may be lost

    @property
    def others(self) -> int:
        """How many other nodes work now, as far as this one knows."""
        return 0

    async def tell(self, text: str) -> bool:
        """Let the other nodes hear a text of ASCII, whole or not at all; return whether it went out.

        It is lost on a node that is cut off, and it has no place among the commits. Whoever may connect to the
        database can hear it, and say anything.
        """
        return False

    def owns(self, user: str) -> bool:
        """Whether a user's agents work here."""
        return True

    def holds(self, role: str) -> bool:
        """Whether this is the node that runs a part which only one may run."""
        return True

    async def until_held(self, role: str) -> None:
        """Return once this node runs that part."""

    async def while_held(self, role: str, part: Callable[[], Awaitable[object]]) -> None:
        """Run a part until it returns; it is cancelled while another node is to run it."""
        await part()

    def work(self, gained: Gained, lost: Callable[[], Awaitable[None]]) -> None:
        """Take part from now on. `gained` begins the work of users that are this node's from now on, and is given the
        agents whose turns may be what other nodes died of; `lost` returns when nothing is done any more for the rest.
        """

    async def leave(self) -> None:
        """Give everything to the others: nothing is done for anybody here any more."""

    async def status(self) -> Mapping[str, Any] | None:
        """Return what people are shown of the nodes, None where there is one."""
        return None


class DividedShare(Share):
    """The share of one node of several. `paused`: it cannot be sure of its shards, and does nothing for anybody."""

    several = True

    @property
    def may_write(self) -> bool:  # type: ignore[override]
        """Whether what ends here is written down here, and not by who has taken over."""
        return not self.paused

    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node
        self.shards: frozenset[int] = frozenset()
        self.paused = False
        self.working = trio.Event()
        self.leaving = False
        self.members = 1  # nodes that work now, as far as this one knows
        self.report: Callable[[], Awaitable[Mapping[str, Any]]] | None = None
        self.teller: Callable[[str], Awaitable[bool]] | None = None
        self.release: Callable[[], Awaitable[None]] | None = None
        self._changed = trio.Event()
        self._parts: dict[trio.CancelScope, tuple[str, trio.Event]] = {}
        self._gained: Gained | None = None
        self._lost: Callable[[], Awaitable[None]] | None = None

    @property
    def others(self) -> int:
        """How many other nodes work now, as far as this one knows."""
        return self.members - 1

    async def tell(self, text: str) -> bool:
        """Let the other nodes hear a text; see `Share`."""
        return self.teller is not None and await self.teller(text)

    def owns(self, user: str) -> bool:
        """Whether a user's agents work here."""
        return not self.paused and shard_of(user) in self.shards

    def holds(self, role: str) -> bool:
        """Whether this is the node that runs a part which only one may run."""
        return self.owns(f"role:{role}")

    async def until_held(self, role: str) -> None:
        """Return once this node runs that part."""
        while not self.holds(role):
            await self._changed.wait()

    async def while_held(self, role: str, part: Callable[[], Awaitable[object]]) -> None:
        """Run a part until it returns; it is cancelled while another node is to run it."""
        while True:
            await self.until_held(role)
            ended = trio.Event()
            with trio.CancelScope() as scope:
                self._parts[scope] = role, ended
                try:
                    await part()
                    return
                finally:
                    del self._parts[scope]
                    ended.set()

    def work(self, gained: Gained, lost: Callable[[], Awaitable[None]]) -> None:
        """Take part from now on; see `Share`."""
        self._gained, self._lost = gained, lost
        self.working.set()

    async def leave(self) -> None:
        """Give everything to the others: nothing is done for anybody here any more."""
        self.leaving = True
        self.shards = frozenset()
        if self.release is not None and self.working.is_set():
            await self.release()

    async def status(self) -> Mapping[str, Any] | None:
        """Return what people are shown of the nodes."""
        return await self.report() if self.report is not None else None

    def roles(self) -> set[str]:
        """Return the parts that run here, and on one node only."""
        return {role for role, _ in self._parts.values()}

    # -- for whoever knows the database ----------------------------------------------------------------------------

    def take(self, shards: frozenset[int], suspects: Sequence[str]) -> None:
        """Have these, too, and begin their work; see `work` for `suspects`."""
        self.shards |= shards
        self._begin(suspects)

    async def drop(self, shards: frozenset[int]) -> None:
        """Have these no more; return when nothing is done for them."""
        self.shards -= shards
        await self._let_go()

    async def pause(self) -> None:
        """Do nothing for anybody until `resume`."""
        self.paused = True
        await self._let_go()

    def resume(self) -> None:
        """Go on."""
        self.paused = False
        self._begin(())

    def _begin(self, suspects: Sequence[str]) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        if self._gained is not None:
            self._gained(suspects)

    async def _let_go(self) -> None:
        ends = [(scope, ended) for scope, (role, ended) in self._parts.items() if not self.holds(role)]
        for scope, _ in ends:
            scope.cancel()
        with trio.move_on_after(LET_GO_S):
            if self._lost is not None:
                await self._lost()
            for _, ended in ends:
                await ended.wait()
