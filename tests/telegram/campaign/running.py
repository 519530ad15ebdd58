"""A daemon in a home of its own that campaigns start, kill and start again, and what is not done yet in its store."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import apsw
import httpx
import trio

from daycare.testing.daemon_process import DaemonProcess, status
from tests.crash.process import Home
from tests.planted.plugin import patience_s
from tests.telegram.campaign.report import Report


class CampaignHome:
    """One home, of which `connector` is looked at. `report` takes what is found wrong on the way."""

    connector: str

    def __init__(self, report: Report) -> None:
        self.report = report
        self.process: DaemonProcess | None = None
        self.starter: Callable[..., DaemonProcess] = DaemonProcess
        self.ready_s: list[float] = []
        self.home = Home()

    # -- the daemon --------------------------------------------------------------------------------------------------

    def start(
        self, *, module: str = "daycare.cli.daemon", environment: Mapping[str, str] | None = None
    ) -> DaemonProcess:
        """Start the daemon."""
        self.process = self.starter(self.home, module=module, environment=environment)
        return self.process

    async def up(self) -> DaemonProcess:
        """Start the daemon and wait until it answers."""
        process = self.start()
        if (ready_s := await process.ready()) is not None:
            self.ready_s.append(ready_s)
        return process

    async def down(self) -> None:
        """Kill the daemon, if it runs."""
        with trio.CancelScope(shield=True):
            if self.process is not None:
                await self.process.kill()

    async def health(self) -> dict[str, Any]:
        """Return how the daemon says the connection is."""
        found: dict[str, Any] = (await status(self.home.socket))["connectors"][self.connector]
        return found

    # -- the store ---------------------------------------------------------------------------------------------------

    @contextmanager
    def store(self) -> Iterator[apsw.Connection]:
        """Open the daemon's store for reading, whether or not it runs."""
        db = apsw.Connection(str(self.home.database), flags=apsw.SQLITE_OPEN_READONLY)
        db.set_busy_timeout(5_000)
        try:
            yield db
        finally:
            db.close()

    def left(self) -> dict[str, int]:
        """Return what is not done yet, by name; nothing is left when all are 0."""
        with self.store() as db:
            return {
                name: int(str(db.execute(f"SELECT count(*) FROM {where}").fetchall()[0][0]))
                for name, where in (
                    ("messages", "inbox WHERE state IN (0, 3)"),
                    ("turns", "turns WHERE turn NOT IN (SELECT turn FROM history)"),
                    ("replies", "outbox WHERE state < 2 AND connector <> 'direct'"),
                )
            }

    async def quiet(self, deadline_s: float) -> bool:
        """Wait until all is done; a finding if that takes too long."""
        deadline_s = patience_s(deadline_s)
        with trio.move_on_after(deadline_s):
            while any(self.left().values()):
                await trio.sleep(0.1)
            return True
        self.report.find("broken", f"not quiet after {deadline_s:g} s: {self.left()}; {await self._how()}")
        return False

    async def _how(self) -> str:
        try:
            return str(await self.health())
        except httpx.HTTPError as error:
            return repr(error)
