"""People who write over Telegram: one node at a time is connected with it, and each message is answered once.

Or more than once, where the later answers say that they may be duplicates.
"""

import random
import re
from typing import Final

import httpx
import trio

from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.crash.ledger import Finding

BOT: Final = "telegram"
PEOPLE: Final = 4
MARK: Final = "may be a duplicate"
_FIRST: Final = 7_000
_SENDERS: Final = 900  # s900 and on, so that nobody else has these names
_PAUSE_S: Final = 1.5
_ACK: Final = re.compile(r"\back m (s\d+) (\d+)\b")

SECTION: Final = """
[plugins.telegram]
base_url = "{base_url}"
base_file_url = "{base_file_url}"
poll_s = 2
"""


class TelegramCrowd:
    """They write until hushed."""

    def __init__(self, server: FakeTelegram, seed: str) -> None:
        self.server = server
        self._rng = random.Random(f"{seed}/telegram")
        self._people = [server.person(_FIRST + number) for number in range(PEOPLE)]
        self.said: dict[tuple[str, str], int] = {}  # by sender and number: the chat
        self._hushed = trio.Event()

    def hush(self) -> None:
        """Let nobody write any more."""
        self._hushed.set()

    async def prepare(self, client: httpx.AsyncClient) -> None:
        """Make the people known, and store the token."""
        for number, person in enumerate(self._people):
            (await client.post("/v1/users", json={"id": f"t{number}"})).raise_for_status()
            key = {"key": f"{BOT}:{person.id}"}
            (await client.post(f"/v1/users/t{number}/links", json=key)).raise_for_status()
        (await client.put(f"/v1/keys/{BOT}", json={"value": self.server.token})).raise_for_status()

    async def run(self) -> None:
        """Write."""
        said = [0] * PEOPLE
        while not self._hushed.is_set():
            who = self._rng.randrange(PEOPLE)
            said[who] += 1
            person = self._people[who]
            self.server.say(person, person, f"m s{_SENDERS + who} {said[who]}")
            self.said[f"s{_SENDERS + who}", str(said[who])] = person.id
            with trio.move_on_after(self._rng.expovariate(1 / _PAUSE_S)):
                await self._hushed.wait()

    @property
    def unanswered(self) -> int:
        """Return how many messages nobody has answered yet."""
        return len(self.said) - len(self._answers())

    def judge(self) -> list[Finding]:
        """Return what was lost, or answered twice without saying so."""
        answers = self._answers()
        found: list[Finding] = []
        for name in self.said:
            texts = answers.get(name, [])
            if not texts:
                found.append(("lost", f"telegram: {name} was never answered"))
            unmarked = [text for text in texts if MARK not in text]
            if len(unmarked) > 1:
                found.append(("doubled", f"telegram: {name} was answered {len(unmarked)} times, unmarked"))
        return found

    @property
    def marked(self) -> int:
        """Return how many replies say that they may be duplicates."""
        return sum(MARK in message.text for message in self.server.sent())

    @property
    def rivals(self) -> int:
        """Return how often Telegram has refused one poller because of another."""
        return sum(call.status == 409 for call in self.server.called("getUpdates"))

    def _answers(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for message in self.server.sent():
            for match in _ACK.finditer(message.text):
                name = match[1], match[2]
                if name in self.said:
                    found.setdefault(name, []).append(message.text)
        return found
