"""Chat commands: every word there is, with arguments that mean something, nearly do, or do not."""

from pathlib import Path
from random import Random
from typing import Final

from daycare.plugin import Inbound
from tests.hostile import schemas, texts
from tests.hostile.messages import echo
from tests.hostile.stage import PEOPLE, Streaming, at_once, opened, said
from tests.hostile.trial import Prepared, Trial

WORDS: Final = (
    "new", "stop", "status", "trace", "agents", "model", "use", "context", "compact", "memory", "cron", "task", "spend",
    "budget", "approvals", "whoami", "help", "start", "reset", "cancel", "approve", "reject", "edit", "undo", "retry",
)  # fmt: skip
ARGUMENTS: Final = (
    "add",
    "list",
    "show",
    "remove",
    "pause",
    "resume",
    "run",
    "facts",
    "why",
    "forget",
    "search",
    "end",
    "back",
    "raise",
    "set",
    "all",
    "1",
    "0",
    "-1",
    "99999999999999999999",
    "1.5",
    "$5",
    "5/day",
    "offline/rules",
    "scripted/model",
    "none",
    "on",
    "off",
    "today",
    "--",
    "export",
    "entities",
    "yes",
    "no",
    "me",
    "١٢",
    "0x10",
    "1e400",
    "nan",
    "inf",
    "-inf",
)


class Commands(Prepared):
    """See the module."""

    name = "commands"
    chunk = 400
    virtual = True

    async def play(self, trial: Trial, folder: Path) -> None:
        """Let people type them, with some ordinary talk between."""
        async with opened(trial, folder, Streaming(echo)) as house:

            async def one(number: int) -> None:
                rng = trial.draw(number)
                text = self.drawn(rng)
                user = rng.choice((*PEOPLE, "ann"))
                inbound = Inbound(connector="direct", sender=f"direct:{user}", key=f"c:{number}", text=text)
                await said(house, trial, number, inbound)

            await at_once(trial.numbers, one, limit=32)

    def drawn(self, rng: Random) -> str:
        """Return the text of one."""
        if rng.random() < 0.1:
            return rng.choice(texts.PHRASES) + "Miso"
        word = rng.choice(WORDS) if rng.random() < 0.95 else texts.short(rng)
        parts = [f"/{word}{rng.choice(('', '', '', '@bot', ' '))}"]
        for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
            some = rng.choice((ARGUMENTS, ARGUMENTS, schemas.CRON, schemas.TIMES, schemas.PATHS, schemas.ZONES))
            parts.append(rng.choice(some) if rng.random() < 0.75 else texts.short(rng))
        return rng.choice((" ", " ", "\n", "  ", "\t")).join(parts)

    def shown(self, rng: Random) -> str:
        """Return its text."""
        return self.drawn(rng)
