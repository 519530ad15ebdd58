"""What `daycare plugins check` says of behaviours, and what a daemon says of plugins that want the same one."""

from pathlib import Path
from typing import Any

import pytest
import trio.testing

from daycare.base.errors import ConflictError
from daycare.plugin import Plugin
from daycare.plugins.contract import flaws, provides
from daycare.testing.daemon import open_daemon
from tests.behaviours.helpers import Counting, plugin


class Unnamed(Counting):
    name = "No Name"


class Silent(Counting):
    description = ""


class Waiting(Counting):
    def act(self, context: Any, messages: Any) -> Any:
        return "at once"


@pytest.mark.parametrize(
    ("behaviours", "says"),
    [
        ([Unnamed()], "use 'No Name' as behaviour 'No Name'"),
        ([Silent()], "behaviour 'counting': its description must be one line"),
        ([Waiting()], "behaviour 'counting': act must be an async function"),
        ([Counting], "a behaviour of type Counting is no object with a method act"),
        ([object()], "a behaviour of type object is no object with a method act"),
        ([Counting(), Counting()], "behaviour 'counting' is there twice"),
        ({"counting": Counting()}, "its behaviours are no list"),
    ],
)
def test_what_is_wrong_with_a_behaviour_is_told_to_its_author(behaviours: Any, says: str) -> None:
    found = flaws(Plugin(name="trial", behaviours=behaviours))
    assert len(found) == 1 and says in found[0]


def test_what_is_right_has_no_flaw_and_is_listed() -> None:
    right = plugin(Counting())
    assert flaws(right) == [] and provides(right) == {"behaviours": ["counting"]}


async def test_a_behaviour_is_of_one_plugin(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    other = Plugin(name="other", behaviours=[Counting()])
    with pytest.RaisesGroup(
        pytest.RaisesExc(ConflictError, match="the behaviour counting is that of the plugin trial"),
        allow_unwrapped=True,
    ):
        async with open_daemon(tmp_path, plugins=[plugin(Counting()), other]):
            pass
