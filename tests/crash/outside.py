"""What the world outside of a daemon knows, in a file that outlives the process: each line is one write."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any


class Outside:
    """What was acknowledged to whom, what arrived, what was promised; `told` maps other promises to their values."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.acknowledged: dict[str, int] = {}  # messages, by key
        self.arrived: Counter[tuple[int, str, str]] = Counter()  # replies, by outbox number, target and text
        self.unmarked: Counter[int] = Counter()  # of these, those that do not say that they may be duplicates
        self.choices: list[tuple[str, str]] = []  # label, and what it says
        self.told: dict[str, Any] = {}
        self.died_ms: int | None = None
        self.commits = 0  # of the last life
        self.near: list[int] = []  # the numbers of those that were looked for
        if file.exists():
            for line in file.read_text().splitlines():
                self._read(json.loads(line))

    @property
    def tools(self) -> Counter[str]:
        """What tools did to the world."""
        file = self._file.with_name("tools")
        return Counter(file.read_text().splitlines()) if file.exists() else Counter()

    def note(self, what: str, **more: Any) -> None:
        """Write down what happened; it is kept from now on."""
        line = {"what": what, **more}
        fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, json.dumps(line).encode() + b"\n")
        finally:
            os.close(fd)
        self._read(line)

    def count_commit(self, *, near: bool) -> None:
        """Count one commit of this life."""
        self.commits += 1
        if near:
            self.near.append(self.commits)

    def _read(self, line: dict[str, Any]) -> None:
        match line["what"]:
            case "acknowledged":
                self.acknowledged[line["key"]] = line["seq"]
            case "arrived":
                self.arrived[line["outbox"], line["target"], line["text"]] += 1
                self.unmarked[line["outbox"]] += not line["marked"]
                self.choices += [(label, says) for label, says in line["choices"]]
            case "told":
                self.told[line["name"]] = line["value"]
            case "died":
                self.died_ms = line["now_ms"]
            case "lived":
                self.commits, self.near = line["commits"], line["near"]
