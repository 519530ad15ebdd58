"""The world outside the daemon: who lives here, what they said and were promised, and what each message leads to.

This is the independent ledger the house is judged by. Every message carries its name in angle brackets, `<m17>`; what
its agent is to do with it (think, fail, call tools) is the errand of that name. Names tell where a message came from:
m a person, t another agent's `send_message`, q another agent's question, h the agent that made this helper for it, r a
reminder. What answers an errand carries its name in braces, `{m17}`: whoever reads an answer has no new errand.
"""

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

from daycare.base.limits import ATTEMPTS_MAX
from daycare.store.records import Policy

NAME = re.compile(r"<([mtqrh][\d.]+)>")
ANSWERED = re.compile(r"\{([mtqrh][\d.]+)\}")
PEOPLE = {
    "ann": ("/ann/direct", "/ann/agent/scout", "/ann/agent/clerk"),
    "bob": ("/bob/direct", "/bob/agent/scout"),
    "cleo": ("/cleo/direct",),
}
FAILURES = ("away", "busy", "cut", "twice", "defect", "silent", "refused")
DEPTH_MAX = 2  # of agents that send on, and of helpers


@dataclass
class Errand:
    """What a message leads to. `failures` are used up one by one, by whatever model call reads the message."""

    name: str
    think_s: float = 0.0
    failures: list[str] = field(default_factory=list)
    steps: list[list[tuple[str, dict[str, Any]]]] = field(default_factory=list)


@dataclass
class Said:
    """What a person said. `seq` is the receipt's number once the house has acknowledged it."""

    name: str
    user: str
    path: str
    text: str
    seq: int | None = None

    @property
    def key(self) -> str:
        """The idempotency key of every try to send it."""
        return f"key-{self.name}"

    @property
    def is_command(self) -> bool:
        """Whether it goes by the control lane."""
        return self.text.startswith("/")


class World:
    """Grows by what people do; `rng` decides everything in it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.said: list[Said] = []
        self.errands: dict[str, Errand] = {}
        self.hauled: list[str] = []  # what the slow tool that must not be repeated has done
        self.policies = {path: rng.choice(list(Policy)) for paths in PEOPLE.values() for path in paths}
        self.ids = {path: f"agent{number}" for number, path in enumerate(self.policies)}
        self.unsteady: list[int] = []  # wall times, in ms, at which the house was down or the wall clock was set

    def message(self, user: str, path: str) -> Said:
        """Let a person think of something to say."""
        name = f"m{len(self.said)}"
        self._errand(name, path, 0)
        said = Said(name, user, path, f"<{name}> please")
        self.said.append(said)
        return said

    def command(self, user: str, path: str) -> Said:
        """Let a person interfere."""
        name = f"c{len(self.said)}"
        said = Said(name, user, path, f"{self.rng.choice(['/stop', '/stop', '/reset'])} now")
        self.said.append(said)
        return said

    def _errand(self, name: str, path: str, depth: int) -> None:
        rng = self.rng
        errand = self.errands[name] = Errand(name)
        if rng.random() < 0.6:
            errand.think_s = rng.choice((0.2, 3.0, 20.0, 90.0)) * rng.random()
        if rng.random() < 0.12:
            errand.failures = [rng.choice(FAILURES) for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.02:  # no try will do
            errand.failures = [rng.choice(("refused", "defect"))] * ATTEMPTS_MAX
        while name[0] != "r" and len(errand.steps) < 3 and rng.random() < 0.45:
            errand.steps.append([])
            for _ in range(rng.choice((1, 1, 2, 3))):
                number = sum(map(len, errand.steps))
                errand.steps[-1].append(self._call(f"{name[1:]}.{number}", path, depth))

    def _call(self, part: str, path: str, depth: int) -> tuple[str, dict[str, Any]]:
        others = [other for other in PEOPLE[path.split("/")[1]] if other != path]
        kinds = ["note", "charge", "charge", "haul", "haul", "nonsense"]
        if not path.endswith("/sub"):
            kinds += ["remind", "remind"]
        if depth < DEPTH_MAX:
            kinds += ["spawn", "spawn", "spawn"]
        if others and depth < DEPTH_MAX:
            kinds += ["send_message", "send_message", "consult", "consult"]
        kind = self.rng.choice(kinds)
        if kind == "note":
            return kind, {"word": part}
        if kind == "charge":
            return kind, {"account": part}
        if kind == "haul":
            return kind, {"load": part, "seconds": self.rng.random() * 30}
        if kind == "remind":
            self._errand(f"r{part}", path, DEPTH_MAX)
            return kind, {"after_s": 1 + self.rng.random() * self.rng.choice((60, 3_600)), "text": f"<r{part}>"}
        if kind == "spawn":
            self._errand(f"h{part}", f"{path}/sub", depth + 1)
            deadline_s = self.rng.choice((3.0, 60.0, 3_600.0, 3_600.0)) * (0.5 + self.rng.random() / 2)
            return kind, {"task": f"<h{part}>", "wait": self.rng.random() < 0.7, "deadline_s": deadline_s}
        if kind == "nonsense":
            return self.rng.choice([("teleport", {}), ("charge", {"amount": 1}), ("remind", {"after_s": -1})])
        name = f"{'t' if kind == 'send_message' else 'q'}{part}"
        to = self.rng.choice(others)
        self._errand(name, to, depth + 1)
        return kind, {"to": to, "text": f"<{name}>"}
