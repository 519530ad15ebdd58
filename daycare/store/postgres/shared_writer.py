"""The writer of a node among several: its commits begin behind those of the others, and it hears of these first.

So what is remembered between commits is exact, whoever has written, and who listens hears of everything in the order of
the commits. Numbers of rows grow in that order, too: only who may commit gives any out.

As a rule there is nothing to hear: a commit goes on with what this node knows, in one round trip, and the server
refuses all of it where somebody else has committed since. Then, and while others commit again and again, it is begun
first.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import apsw

from daycare.base.errors import DaycareError
from daycare.store.postgres.commit_words import HeardCommits, encoded
from daycare.store.postgres.errors import StatementError
from daycare.store.postgres.lockstep import Lockstep, OpeningError, SpoiledError, WriteLane
from daycare.store.postgres.members import NodeMembership, lost
from daycare.store.postgres.next_numbers import NextNumbers
from daycare.store.postgres.schema import next_numbers, numbered, numbering
from daycare.store.postgres.writer import BEGIN, Ownership, PostgresWriter, _of_all
from daycare.store.records import Commit
from daycare.store.sqlite.mark import Mark
from daycare.store.sqlite.write import Write
from daycare.store.sqlite.writer import Tx

_TELL: Final = "INSERT INTO commits (number, node, told) VALUES (?, ?, ?)"
_TOLD: Final = (  # the last commit, and with it what the others have told since one
    "SELECT writing.number, told FROM writing LEFT JOIN commits"
    " ON commits.number > ? AND commits.number <= writing.number AND node <> ? ORDER BY commits.number"
)
_RELOADS_MAX: Final = 4  # since a commit of one's own: who commits seldom reads again before it does


class _UnheardError(Exception):
    """Others have committed what this node did not know of: nothing of the batch has happened."""


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
        self._telling = self._told = False
        self.memory.several = True
        self._stale = True  # others may have written since what is remembered was read
        self._crowded = False  # others had committed unheard when this node did so last
        self._reloads = 0
        self._renumber = True
        self._since = 0.0  # when the fence was sent, at the earliest

    async def listen(self) -> None:
        """Hear of what the others have committed, without a commit of one's own."""
        await self.alone(self._listen)

    def _listen(self, db: apsw.Connection) -> None:
        if not self._server.is_open:
            self._ownership_again()
        told = self._server.execute(*self._unheard()).fetchall()
        if self._hear(told[0][0], told):
            self._numbers.forget()
            self._stale = True
        if self._stale and not self._renumber and self._reloads < _RELOADS_MAX:
            self._reloads += 1
            # Exact unless somebody commits meanwhile, and then the server refuses what relies on it.
            self._load([])

    def _unheard(self) -> tuple[str, tuple[Any, ...]]:
        return _TOLD, (self.membership.applied, self.membership.name)

    def _hear(self, through: int, told: Sequence[tuple[Any, ...]]) -> bool:
        """Take what was told up to a commit; return whether there was one that this node had not heard of."""
        own = self.membership
        if through <= own.applied:
            return False
        self._heard.add(self._server, [text for _, text in told if text is not None])
        self.versions.touch(*self._heard.tables)
        self.memory.distrust(self._heard.commit)
        own.applied = through
        return True

    def _run_batch(self, batch: list[Write[Any]]) -> Commit | None:
        self._guard.check()  # once others have taken over nothing is asked, either
        return super()._run_batch(batch)

    async def _commit(self, batch: list[Write[Any]]) -> None:
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
        self._since = time.monotonic()
        if self._stale or self._crowded:
            self._begin_first()
        else:
            own.number = own.applied + 1
            self._opening = self._bound(BEGIN, own.fence(heard_all=True))
        self._tx = Tx(self._db, self._clock.now_ms(), self.memory)
        return self._tx

    def _begin_first(self) -> None:
        """Begin once it is this node's turn, and hear of all that came before."""
        own = self.membership
        [(number, waited_ms)], told = self._load([BEGIN, own.fence(heard_all=False), self._unheard()])
        if not own.begun(number, waited_ms, self._since):
            self._fenced()
        try:
            self._crowded = self._hear(own.number - 1, told)
        except StatementError as error:
            raise _of_all(error) from error

    def _load(self, opening: Sequence[tuple[str, tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
        """Read again what is remembered, behind an opening; return what came of all of that but the first."""
        names = numbered() if self._renumber else self._numbers.wanted
        reading = [] if not names else [(numbering() if self._renumber else next_numbers(names), ())]
        try:
            lockstep = Lockstep(self._server, self._bound(*opening, *reading), NextNumbers(), guesses=False)
            lockstep.run(cast(Sequence[Callable[[WriteLane], None]], self.memory.loads))
            lockstep.send()
        except (OpeningError, SpoiledError) as refused:
            raise _of_all(cast(DaycareError, refused.error)) from refused
        except StatementError as error:
            raise _of_all(error) from error
        answers = [answer.rows for answer in lockstep.opened]
        self._numbers.read(dict(zip(names, answers.pop()[0], strict=True)) if names else {})
        self._stale = self._renumber = False
        return answers[1:]

    def _try(self, tx: Tx, todo: Sequence[Write[Any]]) -> Write[Any] | None:
        try:
            return super()._try(tx, todo)
        except _UnheardError:
            self._server.execute("ROLLBACK")
            self._stale = True  # nothing else: no statement of it was answered, so no row was remembered
            tx.commit = self._begin().commit
            return super()._try(tx, todo)

    def _opening_refused(self) -> None:
        raise _UnheardError  # or this node's epoch has gone, which the next beginning tells

    def _said(self) -> Sequence[tuple[str, tuple[Any, ...]]]:
        own = self.membership
        told = encoded(self._tx.commit, self.versions.touched | (self._lockstep.tables & self._server.watched))
        self._telling = bool(told)
        return [(_TELL, (own.number, own.name, told))] if told else []

    def _end(self) -> None:
        own = self.membership
        super()._end()
        own.applied = own.number
        self._told = self._told or self._telling
        self._reloads = 0
        if self._lockstep.opened:  # else that was answered before, or the answer was lost
            [(_, waited_ms)] = self._lockstep.opened[1].rows
            own.begun(own.number, waited_ms, self._since)

    def _renew(self, db: apsw.Connection) -> None:
        if not self._server.is_open:
            self._ownership_again()
        if not self.membership.renew():
            self._fenced()

    def _fenced(self) -> None:
        self._guard.refusal = lost(self._server, self.membership.name)
        self._guard.check()

    def _restore(self) -> None:
        if self._server.is_open:
            if self._server.in_transaction:
                self._server.execute("ROLLBACK")
            self._renumber = self._stale = True  # once it is this node's turn
            self.memory.distrust(None)
            self._numbers.forget()
            self._undone = False
