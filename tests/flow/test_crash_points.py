"""A crash at each named point of the one path, and what is seen of it afterwards."""

from pathlib import Path

import pytest

from daycare.agent.sending import DELIVERY_DEADLINE_S
from daycare.testing.crash import Doom
from daycare.testing.fake_connector import FakeConnector, texts
from tests.flow.errand import ANSWER, ASKED, Errand, begin

ACCEPTED = "SELECT 1 FROM inbox WHERE state = 0"
TURN_BEGUN = "SELECT 1 FROM turns WHERE turn NOT IN (SELECT turn FROM history)"
BOTH_ACCEPTED_AND_TURN_BEGUN = f"{TURN_BEGUN} AND (SELECT count(*) FROM inbox) > 1"  # which comes first is chance
MODEL_DONE = "SELECT 1 FROM steps WHERE kind = 'model'"
STARTED = "SELECT 1 FROM steps WHERE name = '{}' AND state = 'started'"
BEGUN = f"{STARTED} AND NOT idempotent"  # what went before it was looking, and asking a person
DONE = "SELECT 1 FROM steps WHERE name = '{}' AND state = 'done'"
FINISHED = "SELECT 1 FROM history WHERE state = 'done'"
SENDING = "SELECT 1 FROM outbox WHERE state = 1"
SENT = "SELECT 1 FROM outbox WHERE state = 2"


async def _crash(folder: Path, monkeypatch: pytest.MonkeyPatch, when: str, *, late: bool = False) -> Errand:
    """Run the errand with a crash at the point, let the next house work, and judge the end."""
    errand = await begin(folder / "home", monkeypatch)
    assert await errand.run(Doom(when=when, late=late)), "the point was reached"
    assert not await errand.run(Doom())
    await errand.judge(when)
    return errand


def _asked_models(errand: Errand) -> int:
    """Return how many model calls the errand itself took; three without a crash."""
    return sum(
        [m.text for m in request.messages if m.role == "user"][-1].endswith(ASKED) for request in errand.model.history
    )


async def test_after_the_commit_of_accept(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform was not told and repeats the message: it is one all the same."""
    errand = await _crash(tmp_path, monkeypatch, ACCEPTED)
    assert _asked_models(errand) == 3


async def test_after_the_turn_was_journaled(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    errand = await _crash(tmp_path, monkeypatch, TURN_BEGUN)
    assert _asked_models(errand) == 3


async def test_after_a_model_step_was_journaled(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is not asked again for what it has said."""
    errand = await _crash(tmp_path, monkeypatch, MODEL_DONE)
    assert _asked_models(errand) == 3


async def test_before_a_model_step_was_journaled(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the model said and nobody wrote down is asked again."""
    for number in range(30):
        errand = await begin(tmp_path / f"{number}", monkeypatch)
        assert await errand.run(Doom(when=BOTH_ACCEPTED_AND_TURN_BEGUN, late=True))
        asked = _asked_models(errand)
        assert not await errand.run(Doom())
        await errand.judge("before a model step was journaled")
        assert _asked_models(errand) == 3 + asked
        if asked:  # else the next commit came before the model was asked, which is chance
            return
    pytest.fail("no house ended between the model's answer and its commit")


@pytest.mark.parametrize(("late", "noted"), [(False, 1), (True, 2)], ids=["before it ran", "after it ran"])
async def test_an_idempotent_tool_that_had_started_runs_again(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, late: bool, noted: int
) -> None:
    errand = await _crash(tmp_path, monkeypatch, STARTED.format("note"), late=late)
    assert errand.ledger == {"note milk": noted, "charge ann": 1}


@pytest.mark.parametrize(("late", "charged"), [(False, 0), (True, 1)], ids=["before it ran", "after it ran"])
async def test_any_other_tool_that_had_started_is_uncertain_and_never_runs_again(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, late: bool, charged: int
) -> None:
    """The judge has seen that the model read `uncertain` and that the person was told."""
    errand = await _crash(tmp_path, monkeypatch, BEGUN.format("charge"), late=late)
    assert errand.ledger["charge ann"] == charged
    assert sum("may or may not have taken effect" in text for text in texts(errand.pigeon.arrived)) == 1


async def test_an_uncertain_step_is_told_of_though_the_daemon_dies_again(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    errand = await begin(tmp_path / "home", monkeypatch)
    assert await errand.run(Doom(when=BEGUN.format("charge")))
    assert await errand.run(Doom(when=DONE.format("charge")))
    assert not await errand.run(Doom())
    await errand.judge("twice")
    assert sum("may or may not have taken effect" in text for text in texts(errand.pigeon.arrived)) == 1


async def test_after_a_tool_was_done(tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    errand = await _crash(tmp_path, monkeypatch, DONE.format("charge"))
    assert errand.ledger == {"note milk": 1, "charge ann": 1}
    assert _asked_models(errand) == 3
    assert len(errand.pigeon.arrived) == 3, "there is nothing to warn of"


async def test_before_the_turn_was_finished(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last words of the model are asked for again; what its tools want done is done once."""
    errand = await _crash(tmp_path, monkeypatch, DONE.format("send_message"), late=True)
    assert _asked_models(errand) == 4
    assert errand.ledger == {"note milk": 1, "charge ann": 1}


async def test_after_the_turn_was_finished_and_before_its_reply_was_delivered(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    errand = await _crash(tmp_path, monkeypatch, FINISHED)
    assert _asked_models(errand) == 3
    assert not any(flight.maybe_duplicate for flight in errand.pigeon.arrived)


async def test_after_a_delivery_was_journaled(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can know that it had not left yet: it is marked."""
    errand = await _crash(tmp_path, monkeypatch, SENDING)
    answers = [flight for flight in errand.pigeon.arrived if flight.text == ANSWER]
    assert [flight.maybe_duplicate for flight in answers] == [True]


async def test_after_a_reply_arrived_and_before_its_receipt(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    errand = await begin(tmp_path / "home", monkeypatch)
    errand.pigeon.enqueue(FakeConnector.LOST)
    await errand.run(Doom(), for_s=DELIVERY_DEADLINE_S / 2)  # the house is left while the pigeon is on its way back
    await errand.run(Doom())
    await errand.judge("lost receipt")
    answers = [flight for flight in errand.pigeon.arrived if flight.text == ANSWER]
    assert [flight.maybe_duplicate for flight in answers] == [False, True]
    assert len({flight.key for flight in answers}) == 1, "where the platform can tell, it sees the same key"


async def test_after_the_receipt(tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch) -> None:
    errand = await _crash(tmp_path, monkeypatch, SENT)
    answers = [flight for flight in errand.pigeon.arrived if flight.text == ANSWER]
    assert [flight.maybe_duplicate for flight in answers] == [False]
