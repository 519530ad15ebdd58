"""Turns that were given up because the daemon died with them, by doc/operate/service.md: what of that is no fault.

A message that was at work at two deaths together with others and at three alone becomes a dead letter, and its sender
is told. What its turn had called has no result then, and a scheduled run that it was has failed. A message that had
joined the turn gets one of its own, in which what it asks for is called again.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import apsw

from tests.crash.ledger import Finding

CODE = "TURN_POISON"
DEATHS_MIN = 5
NOT_RUN = re.compile(rf"\[failed: {CODE}\]")


@dataclass(frozen=True)
class GivenUp:
    """A dead letter with that code. `turn` is the one that was given up with it, `deaths` how often it was at work."""

    seq: int
    path: str
    turn: int | None
    deaths: int
    is_dead: bool

    def __str__(self) -> str:
        return f"message {self.seq} to {self.path} was given up"


def letters(db: apsw.Connection) -> list[GivenUp]:
    """Return what was given up in this way, rightly or not."""
    turns: dict[int, list[tuple[int, int, str, str]]] = {}
    for turn, seqs, deaths, state, error in db.execute(
        "SELECT turn, seqs, interrupted, h.state, coalesce(h.error, '') FROM turns JOIN history h USING (turn)"
        " ORDER BY turn"
    ):
        for seq in json.loads(str(seqs)):
            turns.setdefault(int(seq), []).append((int(str(turn)), int(str(deaths)), str(state), str(error)))
    return [
        _given_up(db, int(str(seq)), str(path), str(reason), turns.get(int(str(seq)), []))
        for seq, path, reason in db.execute(
            "SELECT seq, path, reason FROM dead_letters WHERE code = ? AND source = 'inbox' ORDER BY no", (CODE,)
        ).fetchall()
    ]


def _given_up(db: apsw.Connection, seq: int, path: str, reason: str, turns: list[tuple[int, int, str, str]]) -> GivenUp:
    parked = [turn for turn, _, state, error in turns if state == "parked" and error == reason]
    split = sum(state == "split" for _, _, state, _ in turns)  # whose messages begin with one that is known already
    [(is_dead,)] = db.execute("SELECT count(*) FROM inbox WHERE seq = ? AND state = 2", (seq,)).fetchall()
    deaths = sum(deaths for _, deaths, _, _ in turns) - split
    return GivenUp(seq, path, parked[-1] if parked else None, deaths, bool(is_dead))


def undocumented(db: apsw.Connection, kills: int) -> Iterator[Finding]:
    """Yield what was given up and should not have been, where the daemon was killed so often."""
    for it in letters(db):
        if it.turn is None:
            yield "broken", f"{it}, and no turn with that reason"
        if it.deaths < DEATHS_MIN:
            yield "broken", f"{it} after {it.deaths} deaths"
        if it.deaths > kills:
            yield "broken", f"{it} after {it.deaths} deaths, of which {kills} were kills"
        if not it.is_dead:
            yield "doubled", f"{it}, and its row is not dead"
