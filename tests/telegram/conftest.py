"""Every fake Bot API server of these tests stands before the judge, which is imported by those who run one of them."""

from collections import Counter
from collections.abc import Generator
from types import ModuleType
from typing import Any, Final

import msgspec
import pytest

from daycare_plugins.telegram.testing.faults import DOWNLOAD
from daycare_plugins.telegram.testing.server import FakeTelegram, Moment
from daycare_plugins.telegram.testing.updates import UpdateQueue
from daycare_plugins.telegram.testing.world import BotCall

_LOOKED_AT_MAX: Final = 300  # of each method and each kind of update, in one test: those of a load are alike


@pytest.fixture(autouse=True)
def judged(monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """Let a test fail whose calls were taken, or whose updates were sent, though the judge says that they are wrong."""
    found: set[str] = set()
    looked_at = Counter[str]()
    init, push = FakeTelegram.__init__, UpdateQueue.push

    def on_call(call: BotCall, moment: Moment) -> None:
        if moment == "executed" and call.status == 200 and call.method != DOWNLOAD:
            looked_at[call.method] += 1
            if looked_at[call.method] <= _LOOKED_AT_MAX:
                found.update(_judge().of_call(call))

    def watched(self: FakeTelegram, *about: Any, **options: Any) -> None:
        init(self, *about, **options)
        self.on_call.append(on_call)

    def pushed(self: UpdateQueue, kind: str, payload: Any) -> int | None:
        number = push(self, kind, payload)
        looked_at[kind] += 1
        if number is not None and looked_at[kind] <= _LOOKED_AT_MAX:
            found.update(_judge().of_update({"update_id": number, kind: msgspec.to_builtins(payload)}))
        return number

    monkeypatch.setattr(FakeTelegram, "__init__", watched)
    monkeypatch.setattr(UpdateQueue, "push", pushed)
    yield
    assert not sorted(found)


@pytest.fixture
def judge() -> ModuleType:
    """The judge."""
    return _judge()


def _judge() -> ModuleType:
    from tests.telegram import judge  # late: aiogram's thousand types take seconds to import

    return judge
