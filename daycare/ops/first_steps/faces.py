"""Setting a home up, as routes."""

from pathlib import Path

import trio
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.operations import route
from daycare.base.errors import BrokenError, ConflictError
from daycare.base.secrecy import hide
from daycare.ops.first_steps import work
from daycare.ops.first_steps.operations import SetUp, SetupDone, SetupState, ShowSetup


class SetupRoutes:
    """`/v1/setup`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._turn = trio.Lock()  # two plans at once would be made of the same text

    def routes(self) -> list[Route]:
        """Return the routes of setting up."""
        return [route(ShowSetup, self.show), route(SetUp, self.set_up)]

    @described({200: SetupState})
    async def show(self, wish: ShowSetup) -> SetupState:
        """Show what there is."""
        return await trio.to_thread.run_sync(work.state, self._home)

    @described({200: SetupDone}, refuses=(409,))
    async def set_up(self, wish: SetUp) -> SetupDone:
        """Set it up."""
        for secret in (wish.model_key, *(wish.secrets or {}).values()):
            if secret and secret.strip():
                hide(secret.strip())
        async with self._turn:
            try:
                return await trio.to_thread.run_sync(work.done, self._home, wish)
            except BrokenError as error:  # its home has to be repaired first, and the request was right
                raise ConflictError(error.code, error.message, hint=error.hint) from None
