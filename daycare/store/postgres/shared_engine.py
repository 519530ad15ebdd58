"""A store that several nodes open at the same time: each works for the users of its shards."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import Any, Final, cast

import apsw
import trio

from daycare.base.clock import Clock
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.observe import log
from daycare.store.moving import note as notes
from daycare.store.postgres import schema
from daycare.store.postgres.commit_words import HeardCommits, blank
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.engine import ServerEngine, ServerReaders, ServerWatch, open_reader
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.members import LOOK_S, Division, NodeIdentity, NodeMembership
from daycare.store.postgres.read_lines import LoopReader
from daycare.store.postgres.shared_writer import SharedWriter
from daycare.store.postgres.wake import WakeLine
from daycare.store.postgres.writer import Ownership
from daycare.store.records import Commit
from daycare.store.share import DividedShare, shard_of
from daycare.store.sqlite import turns
from daycare.store.sqlite.database import MEMORY
from daycare.store.sqlite.engine import Engine, watched
from daycare.store.sqlite.facts import UsersTaken
from daycare.store.sqlite.guard import Guard
from daycare.store.sqlite.mark import Mark
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.rows import Rows, followers_of
from daycare.store.sqlite.writer import Tx

_BEATS: Final = 4  # in a lease
_MINDS_S: Final = 0.05  # between two looks whether this node may still count on its lease


class MemberWatch(ServerWatch):
    """Sees after this node's lease and its shards, and hears what the others commit."""

    _share: DividedShare

    def __init__(
        self,
        writer: SharedWriter,
        readers: Readers,
        guard: Guard,
        reader: LoopReader,
        share: DividedShare,
        line: WakeLine,
        news: Sequence[Any],
    ) -> None:
        super().__init__(writer, readers, guard, reader, share)
        self._shared = writer
        self._member = writer.membership
        self._line = line
        self._news = tuple(news)
        share.release = self._release
        share.teller = line.tell
        line.heard = lambda text: share.heard(text)

    async def run(self) -> None:
        """Go on until closed."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                for part in (self._beat, self._mind, self._divide, self._listen, self._line.speak, self._line.hear):
                    nursery.start_soon(part)
                while True:
                    await trio.sleep(LOOK_S)
                    self._report()
                    if not self._connection.is_open:
                        with suppress(DaycareError):
                            await trio.to_thread.run_sync(self._connection.reopen)

    async def _beat(self) -> None:
        while True:
            await trio.sleep(self._member.identity.lease_ms / 1000 / _BEATS)
            with suppress(UnavailableError, BusyError):
                await self._shared.beat()

    async def _mind(self) -> None:
        """Do nothing for anybody while the lease may be over, whatever the reason: by this machine's clock alone."""
        share = self._share
        await share.working.wait()
        with suppress(UnavailableError, BusyError):
            await self._shared.beat()  # the last one may be that of the start
        while True:
            await trio.sleep(_MINDS_S)
            fenced = self._guard.refusal is not None
            sure = not fenced and time.monotonic() < self._member.sure_until
            if not sure and not share.paused:
                log.logger().warning("node.unsure", node=share.node, fenced=fenced)
                await share.pause()
            elif sure and share.paused:
                log.logger().info("node.sure", node=share.node)
                share.resume()
            if fenced:
                self._end_if_back()
                share.ended("other nodes have taken over its work")
                return

    async def _divide(self) -> None:
        share = self._share
        await share.working.wait()
        while not share.leaving:
            self._line.shards = trio.Event()
            with suppress(UnavailableError, BusyError):
                is_to_divide = await self._shared.alone(lambda db: self._member.is_to_divide())
                share.members = self._member.living
                if is_to_divide:
                    await self._settle()
            with trio.move_on_after(LOOK_S):
                await self._line.shards.wait()

    async def _settle(self) -> None:
        share, member = self._share, self._member
        division, suspects = await self._shared.write(lambda tx: _divided(tx, member))
        if division.dead:
            log.logger().warning("node.dead", nodes=division.dead, seen_by=share.node)
        if division.take:
            log.logger().info("node.took", node=share.node, shards=len(division.take))
            self._line.say(shards=True)
            share.take(division.take, suspects)
            self._shared.listener(self._everything())
        if division.give:
            await share.drop(division.give)
            await self._shared.write(lambda tx: member.give(tx.db, division.give))
            self._line.say(shards=True)
            log.logger().info("node.gave", node=share.node, shards=len(division.give))

    def _everything(self) -> Commit:
        """Return a commit after which everybody looks again: other users are this node's, with what waits for them."""
        commit = blank()
        commit.shards = commit.timers = commit.memories = commit.documents = True
        commit.news = {type(each): each for each in self._news}
        return commit

    async def _listen(self) -> None:
        while True:
            with trio.move_on_after(LOOK_S):
                await self._line.committed.wait()
            self._line.committed = trio.Event()  # before looking, so that no word is lost
            with suppress(UnavailableError, BusyError):
                await self._shared.listen()

    async def _release(self) -> None:
        with suppress(UnavailableError, BusyError):
            await self._shared.write(lambda tx: self._member.give_all(tx.db))
            self._line.say(shards=True)


def open_shared(
    identity: NodeIdentity, location: str, clock: Clock, rows: Sequence[type[Rows]], inline: bool, vfs: str | None
) -> Engine:
    """Open a database on a server as one of several nodes.

    Raises `BrokenError` for what an operator has to set right, `StoreAwayError` where the server does not answer,
    STORE_IN_USE where a daycare works alone on it, NODE_NAME_TAKEN or NODE_VERSION.
    """
    half_s = max(1, round(identity.lease_ms / 2_000))
    where = ServerLocation(
        location, {"daycare.node": identity.name, "idle_in_transaction_session_timeout": f"{half_s}s"}
    )
    followers = followers_of(rows)
    with ExitStack() as opened:
        server = opened.enter_context(closing(PostgresConnection(where, schema.dialect())))
        notes.refuse(notes.read(server, notes.OF_A_SERVER), where.shown)
        schema.prepare(server, identity.name)
        membership = NodeMembership(server, identity)
        membership.claim()
        db: Any = server
        mark = Mark(MEMORY, db, clock.now_ms())
        guard = Guard(MEMORY, mark, clock.now_ms)
        writer = SharedWriter(db, where.shown, clock, guard, inline=inline, followers=followers, watched=watched(rows))
        line = WakeLine(where, identity.name)
        news = [each for kind in rows for each in kind.news]
        writer.join(membership, mark, partial(HeardCommits, {type(each).__name__: each for each in news}), line.say)
        reader = opened.enter_context(closing(open_reader(where, inline=inline)))
        opened.pop_all()
    share = DividedShare(identity.name)
    readers = ServerReaders(where, guard, reader)
    share.report = partial(_members, share, membership, readers)
    watch = MemberWatch(writer, readers, guard, reader, share, line, news)
    engine = ServerEngine(where.shown, db, cast(apsw.Connection, reader), readers, writer, guard, mark, watch)
    engine.ownership, engine.reads = cast(Ownership, membership), reader
    engine.share = share
    return engine


def _divided(tx: Tx, member: NodeMembership) -> tuple[Division, list[str]]:
    division = member.divide(tx.db)
    if not division.take:
        return division, []

    def owns(user: str) -> bool:
        return shard_of(user) in division.take

    tx.memory.distrust(None)  # another node has seen to them, and this one may have before that
    tx.tell(UsersTaken(owns))
    return division, turns.recover(tx, owns)


async def _members(share: DividedShare, membership: NodeMembership, readers: Readers) -> Mapping[str, Any]:
    def look() -> list[dict[str, Any]]:
        with readers.lent() as db:
            return membership.members(db)

    ask: Callable[[], Awaitable[list[dict[str, Any]]]] = partial(trio.to_thread.run_sync, look)
    return {
        "name": share.node,
        "epoch": membership.epoch,
        "shards": len(share.shards),
        "roles": sorted(share.roles()),
        "paused": share.paused,
        "nodes": await ask(),
    }
