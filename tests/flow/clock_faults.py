"""Episodes in which the wall clock is set again and again, and the process dies, while something waits.

`python -m tests.flow.clock_faults --episodes N --seed S`: each is one of the waits of `test_clock_set`, which has to be
served within its own bound once the clock is right again, and a key that is known has to stay known. Ends at the first
episode that fails, and says how to replay it.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

import trio
import trio.testing

from daycare.observe import log
from daycare.testing.clock import VirtualClock, patient_clock
from daycare.testing.daemon import open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted

from .test_clock_set import CASES, DAY_S, LOOK_S, YEAR_S, Scene

STEPS_MAX = 5
JUMPS_S = (1.0, 60.0, 3_600.0, DAY_S, 40 * DAY_S, YEAR_S)


class UnsoundError(AssertionError):
    """Something waited for too long, was lost or done twice."""


async def episode(seed: int, folder: Path) -> None:
    """Live through one episode. Raises `UnsoundError`."""
    rng = Random(seed)
    name = rng.choice(list(CASES))
    case, clock, model, pigeon = CASES[name], VirtualClock(), Scripted(), FakeConnector()
    story = [name]
    begun, ahead_s = False, 0.0
    scene: Scene | None = None
    for step in range(steps := rng.randint(1, STEPS_MAX)):
        async with open_daemon(folder, model, location="file.db", plugins=[pigeon.plugin()], clock=clock) as house:
            if scene is None:
                await house.talk("hello", key="once")
                scene = Scene(house, model, pigeon)
            scene.house = house
            jump_s = rng.choice((-1, 1)) * rng.choice(JUMPS_S) * rng.random()
            if rng.random() < 0.3 or step == steps - 1:
                jump_s = -ahead_s
            clock.shift(jump_s)
            ahead_s += jump_s
            story.append(f"{ahead_s:+.0f} s")
            if not begun:
                await case.begin(scene)
                begun = True
            else:
                model._script.clear()
            await trio.sleep(rng.choice((1.0, 60.0, 4_000.0)) * rng.random())
    assert scene is not None
    clock.shift(-ahead_s)
    model._script.clear()
    async with open_daemon(folder, model, location="file.db", plugins=[pigeon.plugin()], clock=clock) as house:
        scene.house = house
        put_right = trio.current_time()
        while not await case.served(scene):
            await trio.sleep(1)
            if trio.current_time() - put_right > case.at_most_s + LOOK_S:
                raise UnsoundError(f"{', '.join(story)}: not served")
        await house.talk("now", path="/system/gc")
        if not (await house.say("hello", key="once")).duplicate:
            raise UnsoundError(f"{', '.join(story)}: its key is forgotten")
        await trio.sleep(2 * LOOK_S)
        if not await case.served(scene) or await house.store.dead.count() > case.letters:
            raise UnsoundError(f"{', '.join(story)}: lost, or done twice")


def run(seed: int) -> None:
    """Run one episode in virtual time."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            trio.run(episode, seed, Path(folder), clock=patient_clock())
        except* AssertionError as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise UnsoundError(f"{error}; replay: python -m tests.flow.clock_faults --seed {seed}") from group


def main() -> int:
    """Run the episodes one after the other; 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.flow.clock_faults", description=__doc__)
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--seed", type=int, help="of the first; without it a fresh one is drawn")
    args = parser.parse_args()
    first = args.seed if args.seed is not None else SystemRandom().randrange(2**32)
    log.configure("error")
    began = time.perf_counter()
    for number in range(args.episodes):
        try:
            run(first + number)
        except UnsoundError as error:
            print(error, file=sys.stderr)
            return 1
    print(f"{args.episodes} episodes from seed {first}: clean, {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
