"""Whether the open database can be trusted: it is still the file at its path, and no page of it is damaged.

Once it cannot, nothing is written any more until daycare is started again. Of a file that was removed or replaced what
is open still holds everything: it is rescued into a file of its own.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from daycare.base.errors import BrokenError, DaycareError, StoreAwayError
from daycare.base.times import local_time
from daycare.store.sqlite.database import MEMORY, checkpoint, described, is_of_an_index, snapshot
from daycare.store.sqlite.mark import Mark

_FILES: Final = ("", "-wal", "-shm")  # the log is as much the database as the file is
_RESCUED: Final = ".rescued-"


class Guard:
    """Guards one open database; its methods may be called in any thread. `refusal` is why nothing is written."""

    def __init__(self, location: str, mark: Mark, now_ms: Callable[[], int]) -> None:
        self.location = location
        self._mark = mark
        self._now_ms = now_ms
        self.refusal: StoreAwayError | None = None
        self.rescued: Path | None = None
        self.tries = 0  # to rescue it
        self._name = location
        self.unsettled = 1  # commits that may be in the log only; there may be some of a run that crashed
        names = () if location == MEMORY else [f"{location}{end}" for end in _FILES]
        self._files = {name: found for name in names if (found := _identity(name)) is not None}

    @property
    def is_gone(self) -> bool:
        """Whether the file is not at its path any more."""
        return self.refusal is not None and self.refusal.code == "STORE_GONE"

    def check(self) -> None:
        """Raise why nothing is to be written."""
        if self.refusal is not None:
            raise _again(self.refusal)

    def look(self, *, log: bool = True) -> None:
        """See whether another file, or none, is at the path of one that is open: STORE_GONE.

        Without its `log` that is cheap enough for each commit; what is acknowledged into either is rescued.
        """
        if self.refusal is None:
            for name, was in self._files.items():
                if name != self.location and not log:
                    continue
                if _identity(name, was) != was:
                    self._name = name
                    self._say_gone("what was acknowledged is being rescued", "wait for that")
                    return

    def committed(self, newest: tuple[int, ...]) -> None:
        """Note a commit, and the newest rows as of it."""
        self.unsettled += 1
        self._mark.advance(newest)

    def heed(self, error: apsw.Error) -> DaycareError:
        """Return what an error of SQLite's means; damage is remembered."""
        failure = described(self.location, error)
        if failure.code != "STORE_CORRUPT":
            return failure
        if is_of_an_index(error):
            return BrokenError(failure.code, failure.message, hint="daycare stop; daycare doctor --fix")
        return self.doubt(str(error))

    def doubt(self, damage: str) -> StoreAwayError:
        """Refuse what is written from now on because of damage that somebody found; return that as an error."""
        failure = described(self.location, apsw.CorruptError(damage))
        refusal = StoreAwayError(
            failure.code,
            f"{failure.message}: no message is taken any more, as what is written now might be lost",
            hint=f"daycare stop, then {failure.hint}",
        )
        if self.refusal is None:
            self.refusal = refusal
            self._mark.doubt(damage)
        return refusal

    def settle(self, db: apsw.Connection) -> None:
        """Bring the log of commits into the file, and the mark to the disk; what fails is tried again later."""
        try:
            if checkpoint(db):
                self.unsettled = 0
        except apsw.Error as error:
            self.heed(error)
        self._mark.sync()

    def rescue(self, db: apsw.Connection) -> None:
        """Write what is open into a file of its own, once.

        The log is emptied first: what is left of it at the old place must never be read as another database's.
        """
        self.settle(db)
        self.tries += 1
        failure: Exception | None = None
        for folder in Path(self.location).parents[:2]:  # the home, or beside it where it is gone, too
            stamp = local_time(self._now_ms(), None).strftime("%Y%m%d-%H%M%S")
            target = folder / f"{Path(self.location).name}{_RESCUED}{stamp}"
            try:
                snapshot(db, target)
            except (apsw.Error, OSError) as error:
                failure = failure or error
            else:
                self.rescued = target
                self._say_gone(
                    f"everything that was acknowledged is in {target}",
                    f"daycare stop, then put the file you want in its place: mv {target} {self.location}",
                )
                return
        self._say_gone(f"rescuing what was acknowledged failed ({failure}), and is tried again", "let daycare run")

    def _say_gone(self, how: str, hint: str) -> None:
        what = f"{self._name} was removed or replaced while it was in use"
        self.refusal = StoreAwayError("STORE_GONE", f"{what}: no message is taken any more; {how}", hint=hint)


def rescues(location: str) -> list[Path]:
    """Return the files into which a database was rescued, the oldest first."""
    file = Path(location)
    found = [each for folder in file.parents[:2] for each in folder.glob(f"{file.name}{_RESCUED}*")]
    return sorted((each for each in found if each.suffix != ".part"), key=lambda each: each.name)


def _identity(name: str, unknown: tuple[int, int] | None = None) -> tuple[int, int] | None:
    """Return which file is at a path, None for none, `unknown` where the system does not say."""
    try:
        found = os.stat(name)  # noqa: PTH116 - for each commit, and half as dear
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return unknown
    return found.st_dev, found.st_ino


def _again(error: StoreAwayError) -> StoreAwayError:
    return StoreAwayError(error.code, error.message, hint=error.hint, retry_after_s=1.0)
