"""Any order of writes, edits, undos, deletions and crashes leaves straight lines that say who wrote what."""

import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from daycare.base.documents import Attribution, DocumentVersion, Layer, NewVersion, Place, digest
from daycare.base.errors import ConflictError, NotFoundError
from daycare.base.messages import Origin
from daycare.features import rows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import Documents
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store
from daycare.testing.faults import Killed, Switch
from tests.chance import WHOLE
from tests.store.samples import HandClock, new_agent

T = TypeVar("T")
PATHS = st.sampled_from(["SOUL.md", "shared/SOUL.md", "knowledge/a.md", "workspace/a.md"])
TEXTS = st.sampled_from(["", "a", "b", "a\nb\n", "tea", "x" * 5_000])
WRITERS = st.sampled_from(["direct:ann", "/ann/telegram", "system"])
STEPS = 0
STEPS_MIN = 1_000 if WHOLE else 250


class Line:
    """What a document's line must look like: (text, author) of each version."""

    def __init__(self) -> None:
        self.versions: list[tuple[str | None, str]] = []

    @property
    def text(self) -> str | None:
        return self.versions[-1][0] if self.versions else None

    def write(self, text: str | None, author: str) -> None:
        if text != self.text:
            self.versions.append((text, author))


class Machine(RuleBasedStateMachine):
    """The documents over a file, a model of them beside, and a process that dies now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = HandClock()
        self.lines: dict[str, Line] = {}
        self.open()

    @initialize()
    def people(self) -> None:
        self.agent: Agent = self.run(lambda: self.store.agents.create(new_agent("/ann/telegram", user="ann")))

    def open(self) -> None:
        self.store = Store(str(Path(self.folder.name) / "daycare.db"), self.clock, rows(), inline=True)
        self.switch = Switch(self.store, lambda: None)

        async def nobody(_: str) -> list[Agent]:
            return []

        self.documents = Documents(self.store, nobody, lambda agent: ())

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return trio.run(work)

    def line(self, path: str) -> Line:
        return self.lines.setdefault(path, Line())

    def by(self, author: str) -> Attribution:
        return Attribution(origin=Origin.PERSON if ":" in author else Origin.AGENT, author=author, reason="a step")

    def change(self, work: Callable[[], Coroutine[Any, Any, DocumentVersion]], crash: str) -> bool:
        """Make a change, with the process dying before or after it is durable; return whether it was made."""
        global STEPS
        STEPS += 1
        self.clock.ms += 1
        if crash:
            self.switch.kill_at(self.switch.commits + 1, "before" if crash == "before" else "after")
        try:
            self.run(work)
        except (ConflictError, NotFoundError):
            assert not self.switch.dead
            self.switch.kill_at(0, "before")  # it came to no commit
            return False
        except Killed:
            self.store.shut()
            self.open()
            return crash == "after"
        return True

    CRASHES = st.sampled_from(["", "", "", "", "before", "after"])

    @rule(path=PATHS, text=TEXTS, author=WRITERS, crash=CRASHES)
    def write(self, path: str, text: str, author: str, crash: str) -> None:
        line = self.line(path)
        base = digest(line.text)
        if self.change(lambda: self.documents.write(self.agent, path, text, self.by(author), base_hash=base), crash):
            line.write(text, author)

    @rule(path=PATHS, text=TEXTS, base=TEXTS, author=WRITERS)
    def write_upon_something_else(self, path: str, text: str, base: str, author: str) -> None:
        line = self.line(path)
        made = self.change(
            lambda: self.documents.write(self.agent, path, text, self.by(author), base_hash=digest(base)), ""
        )
        assert made == (base == line.text or text == line.text)
        if made:
            line.write(text, author)

    @rule(path=PATHS, text=TEXTS, author=WRITERS, crash=CRASHES)
    def append(self, path: str, text: str, author: str, crash: str) -> None:
        line = self.line(path)
        before = line.text or ""
        if len(before) > 20_000:
            return
        new = NewVersion(place=self.place(path), user="ann", by=self.by(author), text=text)
        if self.change(lambda: self.store.of(DocumentRows).append(new), crash):
            gap = "\n" if before and not before.endswith("\n") else ""
            line.write(f"{before}{gap}{text}", author)

    @rule(path=PATHS, author=WRITERS, crash=CRASHES)
    def delete(self, path: str, author: str, crash: str) -> None:
        line = self.line(path)
        base = digest(line.text)
        there = line.text is not None
        if self.change(lambda: self.documents.delete(self.agent, path, self.by(author), base_hash=base), crash):
            assert there
            line.write(None, author)

    @rule(path=PATHS, author=WRITERS, crash=CRASHES, named=st.booleans())
    def undo(self, path: str, author: str, crash: str, named: bool) -> None:
        line = self.line(path)
        version = len(line.versions) if named and line.versions else None
        if self.change(lambda: self.documents.undo(self.agent, path, self.by(author), version=version), crash):
            assert line.versions
            line.write(line.versions[-2][0] if len(line.versions) > 1 else None, author)

    @rule(path=PATHS, author=WRITERS)
    def undo_what_is_not_the_newest(self, path: str, author: str) -> None:
        made = self.change(
            lambda: self.documents.undo(self.agent, path, self.by(author), version=len(self.line(path).versions) + 1),
            "",
        )
        assert not made

    @rule()
    def restart(self) -> None:
        self.store.shut()
        self.open()

    @invariant()
    def every_line_is_what_was_written(self) -> None:
        self.run(self.look)

    async def look(self) -> None:
        for path, line in self.lines.items():
            place = self.place(path)
            found = await self.store.of(DocumentRows).get(place)
            assert (found.text if found else None) == line.text
            history = (await self.store.of(DocumentRows).history(place, limit=10_000))[::-1]
            assert [each.version for each in history] == list(range(1, len(line.versions) + 1)), "a straight line"
            above = ""
            for each, (text, author) in zip(history, line.versions, strict=True):
                assert (each.by.author, each.by.reason, each.user) == (author, "a step", "ann"), "somebody wrote it"
                assert (each.hash, each.base_hash) == (digest(text), above), "hashes agree"
                assert each.size == len(text or "")
                above = each.hash
        living = {self.place(path) for path, line in self.lines.items() if line.text is not None}
        listed = {
            each.place
            for layer, owner in await self.store.of(DocumentRows).owners()
            for each in await self.store.of(DocumentRows).find(layer, owner)
        }
        assert listed == living
        tea = {self.place(path) for path, line in self.lines.items() if line.text is not None and "tea" in line.text}
        scopes = [(Layer.AGENT, self.agent.id), (Layer.USER, "ann"), (Layer.WORKSPACE, "ann")]
        assert {each.version.place for each in self.store.of(DocumentRows).search(scopes, ["tea"])} >= {
            place for place in tea if self.has_word(place)
        }

    async def look_back(self) -> None:
        for path, line in self.lines.items():
            for number, (text, _) in enumerate(line.versions, 1):
                found = await self.store.of(DocumentRows).at(self.place(path), number)
                assert found is not None and found.text == text, "no version was ever rewritten"

    def has_word(self, place: Place) -> bool:
        text = next(line.text for path, line in self.lines.items() if self.place(path) == place) or ""
        return "tea" in text.split()

    def place(self, path: str) -> Place:
        if path.startswith("shared/"):
            return Place(Layer.USER, "ann", path.removeprefix("shared/"))
        if path.startswith("workspace/"):
            return Place(Layer.WORKSPACE, "ann", path.removeprefix("workspace/"))
        return Place(Layer.AGENT, self.agent.id, path)

    def teardown(self) -> None:
        self.run(self.look_back)
        self.store.shut()
        self.folder.cleanup()


def test_hundreds_of_steps_in_any_order_keep_every_line_straight() -> None:
    steps = settings(
        max_examples=5,
        stateful_step_count=80,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    while STEPS < STEPS_MIN:  # how many an example has is chance
        run_state_machine_as_test(Machine, settings=steps)
