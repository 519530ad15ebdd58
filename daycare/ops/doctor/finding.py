"""What a look found, and how it is mended where that is safe."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from daycare.ops.doctor.context import DoctorContext

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Mend:
    """What `--fix` does: `what` in words for people, `do` does it and raises what stands in its way.

    One that is `alone` is done only while nobody else has the home.
    """

    what: str
    do: Callable[[], object]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that was found. `look` is the part it belongs to; `hint` the command that mends it."""

    level: Level
    about: str
    message: str
    hint: str = ""
    look: str = ""
    mend: Mend | None = None

    def document(self) -> dict[str, Any]:
        """Return it as `--json` shows it."""
        return {
            "look": self.look or self.about,
            "level": self.level,
            "about": self.about,
            "message": self.message,
            "hint": self.hint if self.level != "ok" else "",
            "fixable": self.mend is not None,
        }


Look = Callable[["DoctorContext"], Iterator[DoctorFinding]]
