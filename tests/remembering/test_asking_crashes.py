"""A crash at any commit between a question to memory and its answer: it is answered, once, by one search agent.

In CI at each fifth commit, the first of them by chance.
"""

import shutil
from pathlib import Path

import pytest
import trio

from daycare.config import Config
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted
from tests.actors.helpers import history, said_to
from tests.chance import commits
from tests.remembering.asking import CLARA, SEARCH, model, remembered

COMMITS_MAX = 60
EVERY = 5
ASKED = {
    "person": "/memory ask where does Clara live?",
    "model": "recall where Clara lives",
    "offline": "/memory ask Clara",
}


def _parts(who: str) -> tuple[Scripted, Config | None]:
    return model(), Config() if who == "offline" else None


async def _seed(house: TestDaemon) -> None:
    await house.talk(CLARA)
    await remembered(house)


async def _answered(house: TestDaemon, who: str) -> list[str]:
    """Ask, as a platform does that was not told that the question is taken; return what the person was answered."""
    await house.say(ASKED[who], key="asked")
    with trio.fail_after(900):
        while len(await said_to(house)) < 2:
            await trio.sleep(1)
    await trio.sleep(30)  # for what should not come any more
    return (await said_to(house))[1:]


@pytest.mark.parametrize("late", [False, True], ids=["before anyone hears of it", "after all that followed in memory"])
@pytest.mark.parametrize("who", list(ASKED))
async def test_a_question_is_answered_once_whatever_commit_was_the_last(
    tmp_path: Path, autojump_clock: object, who: str, late: bool
) -> None:
    scripted, config = _parts(who)
    (tmp_path / "seed").mkdir()
    assert not await live(tmp_path / "seed", scripted, Doom(), _seed, config=config)
    struck = 0
    for n in commits(EVERY):
        home = tmp_path / str(n)
        shutil.copytree(tmp_path / "seed", home)

        async def first(house: TestDaemon) -> None:
            await _answered(house, who)

        if not await live(home, scripted, Doom(n, late=late), first, config=config) or n >= COMMITS_MAX:
            break
        struck = n

        async def second(house: TestDaemon, n: int = n) -> None:
            answers = await _answered(house, who)
            assert len(answers) == 1, (n, answers)
            assert "Bern" in answers[0] and "\n\nSources:\n[" in answers[0], (n, answers)
            assert "interrupted" not in answers[0], n
            searches = await house.store.agents.find(kinds=["search"], include_dead=True)
            assert [(agent.path, agent.state) for agent in searches] == [(SEARCH, "dead")], n
            assert (await house.store.inbox.counts())["waiting"] == 0, n
            assert await house.store.dead.count() == 0 and await house.store.timers.find() == [], n
            said = [words for role, words in await history(house) if (role, words != "") == ("assistant", True)]
            assert said[1:] == answers, n

        assert not await live(home, scripted, Doom(), second, config=config)
        shutil.rmtree(home)
    assert 8 <= struck < COMMITS_MAX - 1, f"the path has {struck} commits"
