"""What is run to its end tells its errors bare."""

import pytest
import trio

from daycare.base.errors import InvalidError
from daycare.ops import bare


async def fails() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise InvalidError("NO", "no")


async def is_told_to_end() -> None:
    def leave() -> None:
        raise SystemExit(143)

    trio.lowlevel.current_trio_token().run_sync_soon(leave)  # in no task, as a signal may come
    await trio.sleep_forever()


def test_an_error_in_a_nursery_comes_without_its_groups() -> None:
    with pytest.raises(InvalidError):
        bare.run(fails)


def test_an_exit_in_the_loop_itself_is_an_exit() -> None:
    with pytest.raises(SystemExit) as left:
        bare.run(is_told_to_end)
    assert left.value.code == 143
