"""Files that a node needs which is not connected with the messenger that has them: another fetches them for it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from daycare.base.errors import DaycareError, UnavailableError
from daycare.observe import log
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

_WANTED: Final = "wanted-files"  # in the place of a connector's name: what is remembered is (file, user)
_FAILED: Final = "!"
_REASON_MAX_CHARS: Final = 500
_ASK_S: Final = 0.25
_LOOK_S: Final = 0.5
_AT_ONCE: Final = 8

Fetch = Callable[[int, str, str], Awaitable[None]]


async def wanted(store: Store, file_id: int, user: str, deadline_s: float) -> None:
    """Have another node fetch a file. Raises `UnavailableError` FETCH_LATE where it cannot, or not in time."""
    name, reason = str(file_id), f"no node has fetched it within {deadline_s:g} s"
    await store.intake.remember(_WANTED, name, user)
    with trio.move_on_after(deadline_s):
        while await store.files.remote(file_id, user) is not None:
            said = await store.intake.recall(_WANTED, name)
            if said.startswith(_FAILED):
                reason = said.removeprefix(_FAILED)
                break
            if not said:  # somebody else who wants it was told that it failed
                await store.intake.remember(_WANTED, name, user)
            await trio.sleep(_ASK_S)
        else:
            return
    await store.intake.remember(_WANTED, name, "")
    raise UnavailableError("FETCH_LATE", f"fetching file {file_id}: {reason}")


class WantedFiles:
    """Fetches what other nodes want, where it is `here` that its messenger is connected, by what says where it is.

    `fetch` keeps the bytes of a file.
    """

    def __init__(self, store: Store, here: Callable[[str], bool], fetch: Fetch) -> None:
        self._store = store
        self._here = here
        self._fetch = fetch
        self._under_way: set[str] = set()

    async def run(self) -> None:
        """Fetch until cancelled."""
        self._under_way.clear()
        async with trio.open_nursery() as nursery:
            while True:
                for name, user in (await with_retry(lambda: self._store.intake.recall_all(_WANTED, ""))).items():
                    if name in self._under_way or user.startswith(_FAILED) or len(self._under_way) >= _AT_ONCE:
                        continue
                    remote = await with_retry(partial(self._store.files.remote, int(name), user))
                    if remote is None or self._here(remote):
                        self._under_way.add(name)
                        nursery.start_soon(self._bring, name, user, remote)
                await trio.sleep(_LOOK_S)

    async def _bring(self, name: str, user: str, remote: str | None) -> None:
        said = ""
        try:
            if remote is not None:  # nobody has fetched it meanwhile
                await self._fetch(int(name), user, remote)
        except DaycareError as error:
            log.logger().warning("file.not_fetched", file=name, reason=error.message)
            said = f"{_FAILED}{error.message[:_REASON_MAX_CHARS]}"
        await with_retry(lambda: self._store.intake.remember(_WANTED, name, said))
        self._under_way.discard(name)
