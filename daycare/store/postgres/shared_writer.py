"""The writer of a node among several: its commits begin behind those of the others, and it hears of these first.

So what is remembered between commits is exact, whoever has written, and who listens hears of everything in the order of
the commits. Numbers of rows grow in that order, too: only who may commit gives any out.
"""

from collections.abc import Callable
from typing import Any, Final, cast

import apsw

from daycare.store.postgres.commit_words import HeardCommits, encoded
from daycare.store.postgres.errors import StatementError
from daycare.store.postgres.members import NodeMembership, lost
from daycare.store.postgres.schema import number_again
from daycare.store.postgres.writer import Ownership, PostgresWriter, _of_all
from daycare.store.records import Commit
from daycare.store.sqlite.mark import Mark
from daycare.store.sqlite.writer import Tx, _Write

_TELL: Final = "INSERT INTO commits (number, node, told) VALUES (?, ?, ?)"
_TOLD: Final = "SELECT told FROM commits WHERE number > ? AND number <= ? AND node <> ? ORDER BY number"


class SharedWriter(PostgresWriter):
    """Writes as one node of several; `spoke` is called when others are to look at what was committed."""

    def join(
        self, membership: NodeMembership, mark: Mark, heard: Callable[[], HeardCommits], spoke: Callable[[], None]
    ) -> None:
        """Write as this node from now on."""
        self.own(cast(Ownership, membership), mark)
        self.membership = membership
        self._new = heard
        self._heard = heard()
        self._spoke = spoke
        self._told = False
        self.memory.several = True
        self._stale = True  # others may have written since what is remembered was read
        self._renumber = True

    async def listen(self) -> None:
        """Hear of what the others have committed, without a commit of one's own."""
        await self.alone(self._listen)

    def _listen(self, db: apsw.Connection) -> None:
        if not self._server.is_open:
            self._ownership_again()
        [(number,)] = db.execute("SELECT number FROM writing").fetchall()
        self._hear(int(str(number)))

    def _hear(self, through: int) -> bool:
        own = self.membership
        if through <= own.applied:
            return False
        texts = [str(text) for (text,) in self._server.execute(_TOLD, (own.applied, through, own.name))]
        self._heard.add(self._server, texts)
        self._numbers.forget()
        self.versions.touch(*self._heard.tables)
        own.applied = through
        self._stale = True
        return True

    def _run_batch(self, batch: list[_Write[Any]]) -> Commit | None:
        self._guard.check()  # once others have taken over nothing is asked, either
        return super()._run_batch(batch)

    async def _commit(self, batch: list[_Write[Any]]) -> None:
        await super()._commit(batch)
        self._deliver()
        if self._told:
            self._told = False
            self._spoke()

    def _announce(self, commit: Commit) -> None:
        self._deliver()  # it came before
        super()._announce(commit)

    def _deliver(self) -> None:
        if self._heard.any:
            heard, self._heard = self._heard, self._new()
            self.versions.count()
            super()._announce(heard.commit)

    def _begin(self) -> Tx:
        self._ready()
        own = self.membership
        try:
            self._server.execute("BEGIN IMMEDIATE")
            number = own.fence()
            if number is None:
                self._guard.refusal = lost(self._server, own.name)
                self._guard.check()
                raise AssertionError("a refusal is raised")
            if self._renumber:
                self._numbers.read(number_again(self._server))
                self._renumber = False
            self._hear(number - 1)
            if self._stale:
                self.memory.load(self._db)
                self._stale = False
        except StatementError as error:
            raise _of_all(error) from error
        self._tx = Tx(self._db, self._clock.now_ms(), self.memory)
        return self._tx

    def _end(self) -> None:
        own = self.membership
        self._lockstep.send()  # which tables were changed is known once all is answered
        if told := encoded(self._tx.commit, self.versions.touched):
            try:
                self._server.execute(_TELL, (own.number, own.name, told))
            except StatementError as error:
                raise _of_all(error) from error
            self._told = True
        super()._end()
        own.applied = own.number

    def _renew(self, db: apsw.Connection) -> None:
        if not self._server.is_open:
            self._ownership_again()
        if not self.membership.renew():
            self._guard.refusal = lost(self._server, self.membership.name)
            self._guard.check()

    def _restore(self) -> None:
        if self._server.is_open:
            if self._server.in_transaction:
                self._server.execute("ROLLBACK")
            self._renumber = self._stale = True  # once it is this node's turn
            self._numbers.forget()
            self._undone = False
