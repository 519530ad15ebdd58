"""Damaged streams as a whole turn meets them: the call runs once, is paid for once, and the person gets the answer."""

from pathlib import Path

import msgspec
import pytest
import trio.testing

from daycare.config import Config, ModelsSection, ProviderSection
from daycare.plugin import Plugin, ProviderConfig
from daycare.testing.daemon import open_daemon
from daycare.testing.model_server import ScriptedAnswer, ScriptedCall
from tests.chance import SEED, WHOLE
from tests.inference.wire import KINDS, AnyProvider, Recorded, over, recorded

STRIDE = 1 if WHOLE else 31
MODES = ("close", "reset", "stall", "flip")


class Damaged(Recorded):
    """The model's side of a conversation: calls a tool, damaged at `at` the first time, then says `done`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.account = ""
        self.mode = "close"
        self.at = 0
        self.tries = 0

    def calls(self) -> bytes:
        charge = ScriptedCall("charge", {"account": self.account}, id=f"call_{self.account}")
        return recorded(self.kind, ScriptedAnswer(text="I do.", tool_calls=(charge,)))

    def asked(self, body: bytes) -> None:
        messages = msgspec.json.decode(body)["messages"]
        self.then = "close"
        if b"charged" in msgspec.json.encode(messages[-1]):
            self.data = recorded(self.kind, ScriptedAnswer(text="done"))
        else:
            self.data = self.calls()
            self.tries += 1
            if self.tries == 1 and self.mode == "flip":
                flipped = bytes([self.data[self.at] ^ 1 << self.at % 8])
                self.data = self.data[: self.at] + flipped + self.data[self.at + 1 :]
            elif self.tries == 1:
                self.data = self.data[: self.at]
                self.then = self.mode  # type: ignore[assignment]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", sorted(KINDS))
async def test_a_tool_call_damaged_anywhere_runs_once_and_is_charged_once(
    kind: str,
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    print(f"SEED={SEED}")
    ledger = tmp_path / "ledger"
    ledger.touch()
    monkeypatch.setenv("DAYCARE_TEST_LEDGER", str(ledger))
    model = Damaged(kind)
    model.mode = mode

    def make(_config: ProviderConfig) -> AnyProvider:
        return over(model, kind)

    plugin = Plugin(name="damaged", providers={"damaged": make})
    config = Config(models=ModelsSection(default="damaged/m"), providers={"damaged": ProviderSection(kind="damaged")})
    async with open_daemon(tmp_path, config=config, plugins=[plugin]) as house:
        model.account = "a0000"
        size = len(model.calls())
        for number, at in enumerate(range(SEED % STRIDE, size, STRIDE)):
            if number % 20 == 19:
                await house.talk("/reset")  # a conversation that stays short needs no summary
            model.account, model.at, model.tries = f"a{number:04}", at, 0
            before = len(ledger.read_text().splitlines())
            assert await house.talk(f"charge {number}") == "done", (at, mode)
            lines = ledger.read_text().splitlines()[before:]
            assert len(lines) == 1, (at, mode, lines)
            if mode != "flip":  # which may change a letter of the account
                assert lines == [f"charge {model.account}"], (at, mode)
        [(charges, turns)] = house.store._db.execute("SELECT count(*), count(DISTINCT turn) FROM spend").fetchall()
        assert turns == number + 1
        if mode != "flip":  # which may make the model call a tool that does not exist, before it calls the right one
            assert charges == 2 * turns, "two steps a turn, each paid for once"
        assert house.events("turn.failed") == []
        await house.daemon.pool.aclose()
