"""The judge that we did not write condemns what is wrong, so that its silence means something."""

from types import ModuleType

import pytest

from daycare_plugins.telegram.testing.world import BotCall
from tests.telegram.samples import EVERY, said

KEYBOARD = {"inline_keyboard": [[{"text": "Yes", "callback_data": "yes"}]]}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sendMessages", {"chat_id": 5, "text": "hi"}),
        ("sendMessage", {"chat_id": 5}),
        ("sendMessage", {"chat_id": 5, "text": "hi", "colour": "red"}),
        ("sendMessage", {"chat_id": [5], "text": "hi"}),
        ("sendMessage", {"chat_id": "5", "text": "hi", "reply_markup": '{"inline_keyboard": "none"}'}),
        ("sendMessage", {"chat_id": "5", "text": "hi", "entities": [{"type": "bold", "offset": 0, "size": 2}]}),
        ("sendMessageDraft", {"chat_id": 5, "draft_id": "one", "text": "hi"}),
    ],
)
def test_wrong_calls_are_condemned(judge: ModuleType, method: str, params: dict[str, object]) -> None:
    assert judge.of_call(BotCall(method=method, params=params, at=0.0))


def test_right_calls_pass_in_either_encoding(judge: ModuleType) -> None:
    for markup in (KEYBOARD, '{"inline_keyboard":[[{"text":"Yes","callback_data":"yes"}]]}'):
        params = {"chat_id": "5", "text": "hi", "reply_markup": markup, "disable_notification": "true"}
        assert judge.of_call(BotCall(method="sendMessage", params=params, at=0.0)) == []


def test_wrong_updates_are_condemned(judge: ModuleType) -> None:
    assert judge.of_update(said(text="hi")) == []
    assert judge.of_update(said(text="hi", loudness=11)) == ["update.message.loudness: unknown"]
    assert judge.of_update(said(text=7))
    assert judge.of_update({"update_id": "one"})


@pytest.mark.parametrize("kind", EVERY)
def test_samples_are_updates_that_exist(judge: ModuleType, kind: str) -> None:
    # The first is sent by the real server and stands on none of its pages; the second is our invention of a new field.
    odd = ("all_members_are_administrators: unknown", "hologram: unknown")
    assert [each for each in judge.of_update(EVERY[kind]) if not each.endswith(odd)] == []
