"""What people and channels are called: asked of Slack once, and remembered for a day."""

from collections.abc import Iterable
from typing import Final

import trio

from daycare.base.bounded import Bounded
from daycare.base.errors import DaycareError
from daycare.messenger.json_paths import at, text_at
from daycare.messenger.text import one_line
from daycare_plugins.slack.client import SlackApi

NAMES_MAX: Final = 10_000
FRESH_S: Final = 86_400.0
LOOK_UP_S: Final = 1.5  # an envelope has three seconds to be acknowledged
AT_ONCE: Final = 20  # names asked for because of one batch; the others are ids this time


class SlackNames:
    """Names by id. What nobody can tell stays an id."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._names: Bounded[str, tuple[str, float]] = Bounded(NAMES_MAX)

    def __call__(self, number: str) -> str:
        """Return a name that is known, or the id."""
        found = self._names.get(number)
        return found[0] if found is not None else number

    def channel(self, number: str) -> str:
        """Return the name of a channel, or empty."""
        found = self._names.get(number)
        return f"#{found[0]}" if found is not None and found[0] != number else ""

    async def learn(self, people: Iterable[str], channels: Iterable[str]) -> None:
        """Ask for the names that are not known, for a moment."""
        now = trio.current_time()
        wanted = [(each, True) for each in people] + [(each, False) for each in channels if each[0] != "D"]
        unknown = [
            (each, person) for each, person in wanted if self._names.get(each, ("", -FRESH_S))[1] <= now - FRESH_S
        ]
        with trio.move_on_after(LOOK_UP_S):
            async with trio.open_nursery() as nursery:
                for number, person in unknown[:AT_ONCE]:
                    nursery.start_soon(self._learn, number, person)

    async def _learn(self, number: str, person: bool) -> None:
        name = ""
        try:
            if person:
                user = at(await self._api.call("users.info", user=number), "user")
                profile = at(user, "profile")
                name = text_at(profile, "display_name") or text_at(profile, "real_name") or text_at(user, "name")
            else:
                name = text_at(await self._api.call("conversations.info", channel=number), "channel", "name")
        except DaycareError:
            pass  # without the scope for it, or while Slack is away, an id will do
        self._names[number] = (one_line(name) or number, trio.current_time())
