"""Moves that are killed, and gone on with, there and back, until all is equal.

Each kill is a SIGKILL: at a random moment, or just before or behind one of the steps that write, as a process seldom
is at the last ones.
"""

import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from daycare.base.errors import BrokenError, ConflictError, NotFoundError
from daycare.ops import moving
from daycare.store.home import Home
from daycare.store.moving import file_side, opening, server_side
from daycare.store.moving import note as notes
from tests.moves import stores

_STEPS: Final = ("begin", "put", "drop", "complete", "leave", "finish", "set_note")  # of a side, each some commits
_ATTEMPTS_MAX: Final = 200  # of one move, after which it does not come to its end


class WrongError(Exception):
    """Something that must not be."""


@dataclass
class Doom:
    """When a try is killed: so long after its beginning, or before or `behind` the `nth` of a step."""

    wait_s: float = 0.0
    step: str = ""
    nth: int = 1
    behind: bool = False

    def await_step(self) -> None:
        """Let this process die there."""
        for side in (file_side.FileSide, server_side.ServerSide) if self.step else ():
            setattr(side, self.step, self._counted(getattr(side, self.step)))

    def _counted(self, step: Callable[..., None]) -> Callable[..., None]:
        def counted(*given: Any) -> None:
            self.nth -= 1
            if not self.nth and not self.behind:
                os.kill(os.getpid(), signal.SIGKILL)
            step(*given)
            if not self.nth:
                os.kill(os.getpid(), signal.SIGKILL)

        return counted


class Campaign:
    """Kills until there were enough; `database` gives the address of an empty one."""

    def __init__(self, folder: Path, database: Any, messages: int, kills: int, seed: int) -> None:
        self._folder = folder
        self._database = database
        self._messages = messages
        self._kills = kills
        self._random = random.Random(seed)
        self._found: Counter[str] = Counter()
        self._usual_s = 1.0

    def run(self) -> dict[str, Any]:
        """Move there and back until there were enough kills; return what happened."""
        file = self._folder / "whole.db"
        stores.build(file, self._messages)
        rows = stores.everything(str(file))
        shutil.copy(file, self._folder / "asked.db")
        answers = stores.answers(str(self._folder / "asked.db"))
        episode = 0
        while self._found["kills"] < self._kills or not episode:
            episode += 1
            home = Home(self._folder / f"home-{episode}")
            home.prepare()
            shutil.copy(file, home.path / "daycare.db")
            server = self._database()
            self._usual_s = self._moved(home, "daycare.db", server, rows)
            self._usual_s = self._moved(home, server, "back.db", rows)
            for at in (server, str(home.path / "back.db")):
                self._opened(home, at)
                if stores.answers(at) != answers:
                    raise WrongError(f"a search finds something else in {at}")
            shutil.rmtree(home.path)
        return {
            "rows": sum(map(len, rows.values())),
            "episodes": episode,
            **self._found,
            "both_opened": 0,
            "rows_that_differ": 0,
            "answers_that_differ": 0,
        }

    def _moved(self, home: Home, source: str, target: str, rows: stores.Everything) -> float:
        """Move, killed on the way; return how long a try took that came to its end."""
        home.config.write_text(f'[store]\nlocation = "{source}"\n')
        locations = home.database(source), home.database(target)
        for _ in range(_ATTEMPTS_MAX):
            doom = self._drawn() if self._found["kills"] < self._kills else None
            began = time.monotonic()
            killed = self._tried(home, target, doom)
            self._found["tries"] += 1
            if not killed:
                break
            self._found["kills"] += 1
            self._checked(*locations)
            print(f"kill {self._found['kills']}, {doom}: they say {list(map(_state, locations))}", file=sys.stderr)
        else:
            raise WrongError(f"it did not come to its end in {_ATTEMPTS_MAX} tries")
        self._found["moves"] += 1
        print(f"moved to {target.partition(':')[0]}", file=sys.stderr)
        if [_state(each) for each in locations] != ["left", "arrived"]:
            raise WrongError(f"at the end they say {[_state(each) for each in locations]}")
        for at in locations:
            if (found := stores.everything(at)) != rows:
                raise WrongError(f"rows differ in {at}: {[name for name in rows if rows[name] != found[name]]}")
        return time.monotonic() - began

    def _drawn(self) -> "Doom":
        """Return when the next try is killed."""
        if self._random.randrange(2):
            return Doom(wait_s=self._random.uniform(0, 1.2 * self._usual_s))
        step = self._random.choice(_STEPS)
        nth = self._random.randrange(1, 30) if step == "put" else 1
        return Doom(step=step, nth=nth, behind=bool(self._random.randrange(2)))

    def _tried(self, home: Home, target: str, doom: "Doom | None") -> bool:
        """Move in a process of its own; return whether it was killed."""
        child = os.fork()
        if not child:
            try:
                if doom is not None:
                    doom.await_step()
                moving.move(home, moving.MoveRequest(to=target), stop=lambda: False)
                os._exit(0)
            finally:  # whatever it was
                traceback.print_exc()
                os._exit(1)
        deadline = time.monotonic() + doom.wait_s if doom is not None and doom.wait_s else None
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if deadline is not None and time.monotonic() >= deadline:
                os.kill(child, signal.SIGKILL)
                deadline = None
            time.sleep(0.001)
        if os.WIFSIGNALED(status):
            return True
        if os.WEXITSTATUS(status):
            raise WrongError("a move failed; what it said stands above")
        return False

    def _checked(self, source: str, target: str) -> None:
        """Check that one of the two can be opened at most, and no half one."""
        states = _state(source), _state(target)
        self._found[f"killed when {states[0] or 'nothing'}/{states[1] or 'nothing'}"] += 1
        if states not in {("", ""), ("", "arriving"), ("leaving", "arriving"), ("leaving", "arrived"),
                          ("arrived", ""), ("arrived", "arriving"), ("left", "arrived")}:  # fmt: skip
            raise WrongError(f"after a kill they say {states}")

    def _opened(self, home: Home, location: str) -> None:
        """Let a store be opened again that was left, as a person does who wants it back."""
        home.config.write_text(f'[store]\nlocation = "{location}"\n')
        if _state(location) == "left":
            moving.undo(home)


def _state(location: str) -> str:
    try:
        side = opening.open_source(location)
    except (NotFoundError, BrokenError):
        return ""
    except ConflictError as error:
        if error.code != "MOVE_OLD_SCHEMA":
            raise
        return ""  # killed before its schema was whole
    try:
        said = side.note()
    finally:
        side.close()
    try:
        notes.refuse(said, location)
    except BrokenError:
        pass
    return said.state if said else ""
