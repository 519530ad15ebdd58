"""A plan says what would be written; a plugin's own step needs nothing but its declaration."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daycare.base.errors import ConflictError, DaycareError, ForbiddenError, InvalidError
from daycare.ops import planning, trials
from daycare.ops.requests import SetupRequest
from daycare.ops.setup import initialise
from daycare.plugin import Plugin, Secret, SetupQuestion, SetupStep, Verified
from daycare.plugins.contract import flaws


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    room: str = ""
    loud: bool = False


def in_use(settings: Settings, secret: Secret) -> Sequence[str]:
    return ["pigeons"] if settings.room and secret("pigeons") else []


async def check(connector: str, settings: Settings, secret: Secret) -> Verified:
    if secret("pigeons") != "coo":
        raise ForbiddenError("PIGEONS", f"asking the pigeons of {settings.room}: they do not know us")
    return Verified(identity=f"{connector} of {settings.room}")


STEP = SetupStep(
    title="Pigeons",
    about="they live on the roof",
    connector="pigeons",
    connectors=in_use,
    questions=(
        SetupQuestion(name="room", prompt="Where do they live"),
        SetupQuestion(name="loud", prompt="Are they loud", kind="flag"),
        SetupQuestion(name="pigeons", prompt="Their word", kind="secret"),
    ),
    settings={"loud": True},
    check=check,
)
PIGEONS = Plugin(name="pigeons", config=Settings, wizard=STEP)


def plan(home: Path, request: SetupRequest, **more: Any) -> planning.SetupPlan:
    return planning.plan(planning.look(home), request, [PIGEONS], environment={"WORD": "coo"}, **more)


def test_a_plugin_needs_only_its_declaration(tmp_path: Path) -> None:
    assert flaws(PIGEONS) == []
    home = tmp_path / "h"
    room = {"pigeons": {"room": "roof"}}
    made = plan(home, SetupRequest(connect=("pigeons",), plugins=room, secrets_env={"pigeons": "WORD"}))
    assert made.text.endswith('[plugins.pigeons]\nloud = true\nroom = "roof"\n')
    assert (made.secrets, made.came) == ({"pigeons": "coo"}, {"pigeons": "$WORD"})
    assert not home.exists()
    with pytest.raises(InvalidError, match=r"plugins\.pigeons: their word is missing"):
        plan(home, SetupRequest(plugins=room))
    with pytest.raises(InvalidError, match=r"plugins\.pigeons: where do they live is missing"):
        plan(home, SetupRequest(connect=("pigeons",), secrets_env={"pigeons": "WORD"}))


def test_a_plugin_that_cannot_be_set_up_here_says_why(tmp_path: Path) -> None:
    for missing, told in ((lambda: "they have flown", "they have flown"), (lambda: str(1 // 0), "ZeroDivisionError")):
        absent = msgspec.structs.replace(STEP, missing=missing, connectors=lambda *_: [str(1 // 0)])
        plugin = msgspec.structs.replace(PIGEONS, wizard=absent)
        with pytest.raises(ConflictError, match=f"pigeons cannot be connected: .*{told}"):
            planning.plan(planning.look(tmp_path), SetupRequest(connect=("pigeons",)), [plugin])
        assert not trials.in_use(tmp_path, planning.look(tmp_path).config, plugin, absent)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"questions": (SetupQuestion(name="telegram", prompt="x", kind="secret"),)}, "the secret telegram does not"),
        ({"questions": (SetupQuestion(name="nosuch", prompt="x"),)}, "its settings have no nosuch"),
        ({"questions": ("x",)}, "'x' is no SetupQuestion"),
        ({"settings": {"nosuch": 1}}, "its settings have no nosuch"),
        ({"check": len}, "wizard: check must be an async function"),
        ({"missing": None}, "must be functions"),
    ],
)
def test_a_step_that_breaks_the_contract_is_told(changes: dict[str, Any], told: str) -> None:
    wrong = flaws(msgspec.structs.replace(PIGEONS, wizard=msgspec.structs.replace(STEP, **changes)))
    assert len(wrong) == 1 and told in wrong[0]
    assert flaws(msgspec.structs.replace(PIGEONS, wizard=Settings())) == ["its wizard is no SetupStep"]


def test_what_is_there_stays_unless_it_is_to_be_another(tmp_path: Path) -> None:
    home = tmp_path / "h"
    initialise(home, user_name="Ann", agent_name="Robin", zone="UTC", secrets={"pigeons": "coo"})
    before = (home / "config.toml").read_text()
    assert plan(home, SetupRequest()).empty
    assert plan(home, SetupRequest(user_name="Ann", agent_name="Robin", model="offline")).empty
    made = plan(home, SetupRequest(user_name="Anna", zone="Europe/Paris"))
    assert (made.text, made.person) == (before, {"name": "Anna", "zone": "Europe/Paris"})
    made = plan(home, SetupRequest(plugins={"pigeons": {"room": "roof"}}))  # their word is stored already
    assert (made.secrets, made.new, made.empty) == ({}, False, False)
    assert list(trials.in_use(home, made.config, PIGEONS, STEP)) == ["pigeons"]
    assert list(trials.in_use(home, made.present.config, PIGEONS, STEP)) == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (SetupRequest(model="nosuch/x"), "model: no provider is called nosuch"),
        (SetupRequest(model="offline", model_key_env="WORD"), "model: offline/rules has neither a key nor an address"),
        (SetupRequest(model_url="http://127.0.0.1:1/v1"), "model: offline/rules has neither"),
        (
            SetupRequest(model="box/x", model_url="http://me:pw@host/v1"),
            "model_url: the base_url of provider box holds a",
        ),
        (SetupRequest(user="a b"), "user: "),
        (SetupRequest(personality="rude"), "personality: "),
    ],
)
def test_what_cannot_be_is_told_by_its_name(tmp_path: Path, asked: SetupRequest, told: str) -> None:
    with pytest.raises(DaycareError, match=told):
        plan(tmp_path / "h", asked)
