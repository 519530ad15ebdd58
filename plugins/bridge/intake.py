"""From a bridge to the host: batches are committed, and only then acknowledged."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from daycare.base.bounded import Bounded
from daycare.base.bridge import Inward, Moved, Said
from daycare.base.connector import Inbound, Unreadable
from daycare.base.errors import BusyError, DaycareError, InvalidError, UnavailableError
from daycare.messenger.receiving import Errands, Receiver
from daycare.plugin import PluginContext
from daycare_plugins.bridge.folder import BridgeFolder
from daycare_plugins.bridge.reading import is_key, read
from daycare_plugins.bridge.session import UNACKNOWLEDGED_MAX, Session
from daycare_plugins.bridge.settings import Supervision

COMMIT_S: Final = 3.0  # a plugin has 5 s to go
HEARD_MAX: Final = 10_000  # messages of groups that were for us: deletions of others are nothing to us
STORE_AGAIN_S: Final = 1.0  # while the store takes nothing

Notice = Callable[[str, str, str, bool], Awaitable[None]]  # target, text, key, whether it is sent again


class BridgeIntake:
    """Takes in what one bridge tells."""

    def __init__(
        self, context: PluginContext, name: str, settings: Supervision, folder: BridgeFolder, notice: Notice
    ) -> None:
        self._context = context
        self._name = name
        self._settings = settings
        self._folder = folder
        self._notice = notice
        self._heard: Bounded[tuple[str, str], bool] = Bounded(HEARD_MAX)
        self._receiver = Receiver(
            context, name, "bridge", defect="BRIDGE_DEFECT", within_s=COMMIT_S, late="BRIDGE_STORE"
        )
        self._notices = Errands(context, name, "bridge_notice", self._notify)

    async def run(self, session: Session) -> None:
        """Take in what comes in a session, until its end."""
        async for first in session.inward:
            batch = [first]
            while len(batch) < UNACKNOWLEDGED_MAX:
                try:
                    batch.append(session.inward.receive_nowait())
                except (trio.WouldBlock, trio.EndOfChannel):
                    break
            await self._take(batch)
            await session.acknowledge(tuple(frame.id for frame in batch))

    async def tell(self) -> None:
        """Tell people why they were not let in, until cancelled. Nothing waits for it."""
        await self._notices.run()

    async def _notify(self, notice: tuple[str, str, str], again: bool) -> None:
        await self._notice(*notice, again)

    async def _take(self, batch: Sequence[Inward]) -> None:
        """Commit a batch, however long that takes: until then the bridge keeps it."""
        items = []
        for frame in batch:
            if (item := await self._read(frame)) is not None:
                items.append(item)
                if isinstance(frame, Said) and frame.chat:
                    self._heard[frame.chat, frame.message] = True
        while True:
            try:
                outcomes = await self._receiver.receive(items) if items else []
                break
            except (BusyError, UnavailableError) as error:
                self._context.log.warning("bridge_store_busy", connector=self._name, code=error.code)
                await trio.sleep(error.retry_after_s or STORE_AGAIN_S)
        for item, outcome in zip(items, outcomes, strict=True):
            if isinstance(item, Inbound) and outcome.say:
                target = (item.chat or item.sender).removeprefix(f"{self._name}:")
                self._notices.add((target, outcome.say, f"notice:{item.key}"))

    async def _read(self, frame: Inward) -> Inbound | Unreadable | None:
        if isinstance(frame, Moved):
            await self._moved(frame)
            return None
        about = self._name, self._settings.groups, self._folder, self._was_heard
        if not getattr(frame, "files", ()):
            return read(frame, *about)
        return await trio.to_thread.run_sync(read, frame, *about)

    def _was_heard(self, chat: str, message: str) -> bool:
        return (chat, message) in self._heard

    async def _moved(self, frame: Moved) -> None:
        try:
            if not is_key(frame.old) or not is_key(frame.new):
                raise InvalidError("BRIDGE_KEY", "moving a chat: these are no usable keys")
            await self._context.moved(self._name, f"{self._name}:{frame.old}", f"{self._name}:{frame.new}")
        except DaycareError as error:  # what is said by the new key shows a code then
            self._context.log.error("bridge_move_failed", connector=self._name, code=error.code)
