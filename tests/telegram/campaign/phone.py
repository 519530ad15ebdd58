"""A person with a phone: has something remembered, reads the request, decides it, presses again if nothing happens.

They know nothing but what they see in their chat. What they do is written down in a `Deed`, for the judge.
"""

import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeVar

import httpx
import trio

from daycare.testing.daemon_process import client_of
from daycare_plugins.telegram.testing.server import FakeMessage
from tests.telegram.campaign.proposer import TOLD, asking, fact
from tests.telegram.campaign.stage import Room, Stage

Plan = Literal["approve", "edit", "reject", "undo", "race", "stale", "ignore"]

LOOK_S: Final = 0.05
REPLY_S: Final = 6.0  # after which everybody replies again
STUCK_S: Final = 60.0  # so long nothing has happened, whatever they did: it will not
_RETRY_S: Final = 0.05
_AGAIN: Final = ("was changed meanwhile", "what you saw is not what it says now")
_ANSWERS: Final = {"Approved": "approved", "Approved with your text": "edited", "Rejected": "rejected"}
_DECIDED: Final = re.compile(r"^Decided: (approved(?: with another text)?|rejected) by .*?(telegram|direct):", re.M)
_REQUEST: Final = re.compile(r"^Request (\d+): /", re.MULTILINE)
T = TypeVar("T")


@dataclass
class Deed:
    """Something to remember, and what its person saw become of it. Empty: nothing yet.

    `verdict` is what the phone was told of the decision, `terminal` what the other decider was.
    """

    name: str
    plan: Plan
    room: Room
    no: int = 0
    presses: int = 0
    verdict: str = ""
    terminal: str = ""
    shown_again: bool = False
    ended: bool = False
    stuck: str = ""

    @property
    def user(self) -> str:
        """The id of the person."""
        return f"c{self.room.number}"

    @property
    def edited(self) -> str:
        """The text that a person writes instead."""
        return f"- {self.name} likes coffee after all"

    @property
    def by_others(self) -> str:
        """What somebody else writes into the document meanwhile."""
        return f"- somebody else wrote of {self.name}"


class StuckError(Exception):
    """Nothing happens any more."""


class Phone:
    """One person and their chat. They press again when nothing has happened for `patience_s`, and then twice that.

    They give up when they have waited for one thing for `stuck_s`.
    """

    race_s = 0.03  # about as long as a press takes to the desk: either of two deciders may be first

    def __init__(
        self, stage: Stage, room: Room, rng: random.Random, patience_s: float = math.inf, stuck_s: float = STUCK_S
    ) -> None:
        self.deeds: list[Deed] = []
        self.stage = stage
        self._room = room
        self._rng = rng
        self._patience_s = patience_s
        self._stuck_s = stuck_s
        self._impatient = trio.Event()
        self._begin = 0  # messages up to this one are of earlier deeds

    async def do(self, plan: Plan) -> Deed:
        """Have something remembered and decide it as planned; end when the agent has said what became of it."""
        deed = Deed(f"p{self._room.number}-{len(self.deeds) + 1}", plan, self._room)
        self.deeds.append(deed)
        messages = self.stage.server.messages(self._room.id)
        self._begin = messages[-1].id if messages else 0
        try:
            self.stage.server.say(self._room.place, self._room.writers[0], asking(deed.name))
            await self._answer(deed)
            deed.ended = True
        except StuckError as error:
            deed.stuck = str(error)
        return deed

    def lose_patience(self) -> None:
        """Let them press again at once, if they wait for a press to do something."""
        self._impatient.set()
        self._impatient = trio.Event()

    async def _answer(self, deed: Deed) -> None:
        shown = await self._until(f"a request with {fact(deed.name)}", lambda: self._request(fact(deed.name)))
        deed.no = _number(shown)
        await self._until("what the agent says of it", lambda: self.said(f"I have proposed it, request {deed.no}."))
        if deed.plan == "ignore":
            return
        if deed.plan == "edit":
            await self._edit(deed)
        if deed.plan == "stale":
            await self._meddle(deed)
        async with trio.open_nursery() as nursery:
            if deed.plan == "race":
                nursery.start_soon(self._race, deed)
                await trio.sleep(self._rng.uniform(0.0, self.race_s))
            deed.verdict = await self._decide(deed, "Reject" if deed.plan == "reject" else "Approve")
        await self._until("the follow-up", lambda: self.said(f"{TOLD} {deed.no} was"))
        if deed.plan == "undo":
            await self._undo(deed)
            deed.verdict = "undone"

    # -- what they do ------------------------------------------------------------------------------------------------

    async def _decide(self, deed: Deed, label: str) -> str:
        """Press a button until the phone says what became of the request; one shown again is pressed again."""
        while True:
            told = await self._until(
                f"what became of request {deed.no}",
                partial(self._told, deed, self._press(deed, label)),
                partial(self._press, deed, label),
            )
            if isinstance(told, str):
                return told
            deed.shown_again = True

    def _press(self, deed: Deed, label: str) -> int:
        """Press the button below the newest message that has it for this request; return the message's number.

        Once it is decided there are no buttons any more, only what was decided.
        """
        message = self._newest(deed, label)
        if message is None:
            return 0
        [data] = [button["callback_data"] for row in message.keyboard for button in row if button["text"] == label]
        self.stage.server.press(message, data, self._room.writers[0])
        deed.presses += 1
        return message.id

    async def _edit(self, deed: Deed) -> None:
        """Reply with another text to the request, or to what the button for that brings.

        Of a message that came twice the first is nobody's, as its receipt died with the daemon: a reply to that is for
        the agent. So everybody tries it again some time, with the newest one.
        """
        words = ""
        if self._rng.random() < 0.5:
            words = f"Reply to this message with the text of request {deed.no}"
            self._press(deed, "Edit")
            await self._until("what to reply to", partial(self.said, words), partial(self._press, deed, "Edit"))

        def reply() -> None:
            to = self.said(words) if words else self._newest(deed, "Edit")
            self.stage.server.say(self._room.place, self._room.writers[0], deed.edited, reply_to=to)
            deed.presses += 1

        reply()
        patience_s = min(self._patience_s, REPLY_S)
        await self._until("the edited text", partial(self._request, deed.edited), reply, patience_s)

    async def _undo(self, deed: Deed) -> None:
        done = await self._until("how to undo it", lambda: self.said(f": request {deed.no}. MEMORY.md is at version"))

        def press() -> None:
            self.stage.server.press(done, f"/undo {deed.no}", self._room.writers[0])
            deed.presses += 1

        press()
        await self._until("that it is undone", lambda: self.said(f"as it was before request {deed.no}."), press)

    # -- what others do ----------------------------------------------------------------------------------------------

    async def _race(self, deed: Deed) -> None:
        """Let the same person decide elsewhere as well, the same or the other way round."""
        deed.terminal = await self.decide_elsewhere(deed, self._rng.choice(("approve", "reject")))

    async def decide_elsewhere(self, deed: Deed, verdict: str) -> str:
        """Decide over the API; return the state that it came to, or the code of the refusal."""
        await trio.sleep(self._rng.uniform(0.0, self.race_s))
        shown = await self._call("GET", f"/v1/approvals/{deed.no}")
        wish = {"verdict": verdict, "user": deed.user, "seen": shown.json()["content_hash"]}
        answer = await self._call("POST", f"/v1/approvals/{deed.no}/decide", wish)
        found = answer.json()
        return str(found["state"] if answer.status_code == 200 else found["error"]["code"])

    async def _meddle(self, deed: Deed) -> None:
        """Write something else into the document that the request is about."""
        where = {"agent": f"/{deed.user}/telegram", "path": "MEMORY.md"}
        while True:
            now = (await self._call("GET", "/v1/memory/document", None, where)).json()
            if deed.by_others in now["text"]:
                return
            new = {"text": f"{now['text']}{deed.by_others}\n", "base_hash": now["hash"]}
            await self._call("PUT", "/v1/memory/document", new, where)

    async def _call(self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None) -> Any:
        """Call the API, again and again while there is no daemon."""
        with trio.move_on_after(self._stuck_s):
            while True:
                try:
                    async with client_of(self.stage.home.socket) as client:
                        return await client.request(method, path, json=body, params=query)
                except httpx.TransportError:
                    await trio.sleep(_RETRY_S)
        raise StuckError(f"{method} {path} is not answered")

    # -- what they see -----------------------------------------------------------------------------------------------

    async def _until(
        self,
        what: str,
        look: Callable[[], T | None],
        again: Callable[[], object] | None = None,
        patience_s: float | None = None,
    ) -> T:
        """Wait until something is seen; do it again whenever patience is over."""
        patience_s = self._patience_s if patience_s is None else patience_s
        with trio.move_on_after(self._stuck_s):
            while True:
                impatient, until = self._impatient, trio.current_time() + patience_s
                while not impatient.is_set() and trio.current_time() < until:
                    if (found := look()) is not None:
                        return found
                    await trio.sleep(LOOK_S)
                patience_s *= 2
                if again is not None:
                    again()
        raise StuckError(f"waiting for {what}: {[message.text for message in self._mine()][:3]}")

    def said(self, words: str) -> FakeMessage | None:
        """Return the newest message of this deed with these words."""
        return next(self._mine(lambda message: words in as_sent(message)), None)

    def _request(self, words: str) -> FakeMessage | None:
        return next(self._mine(lambda message: words in message.text and has_button(message, "Approve")), None)

    def _newest(self, deed: Deed, label: str) -> FakeMessage | None:
        about = f"Request {deed.no}: /"
        return next(self._mine(lambda message: about in message.text and has_button(message, label)), None)

    def _told(self, deed: Deed, pressed: int) -> str | FakeMessage | None:
        return self._outcome(deed) or self._shown_after(deed, pressed)

    def _shown_after(self, deed: Deed, pressed: int) -> FakeMessage | None:
        newest = self._newest(deed, "Approve")
        if newest is None or newest.id <= pressed:
            return None
        return newest if any(words in newest.text for words in _AGAIN) else None

    def _outcome(self, deed: Deed) -> str | None:
        """Return what the phone was told of the decision: the state, and `already` if it was made elsewhere."""
        for message in self._mine():
            if (answer := answered(message, deed.no)) is not None:
                return answer
            if f"Request {deed.no}: /" in message.text and (found := _DECIDED.search(message.text)):
                state = "edited" if found[1].endswith("another text") else found[1]
                return state if found[2] == "telegram" else f"{state} already"
        return None

    def _mine(self, fits: Callable[[FakeMessage], bool] = lambda message: True) -> Iterator[FakeMessage]:
        """Yield what the bot sent in this deed, the newest first."""
        for message in reversed(self.stage.server.sent(self._room.id)):
            if message.id <= self._begin:
                return
            if fits(message):
                yield message


def answered(message: FakeMessage, no: int) -> str | None:
    """Return what a message says that answers to a decision: the state, with `already` if that was there before."""
    for words, state in _ANSWERS.items():
        if f"{words}: request {no}." in message.text:
            return state
    found = re.search(rf"request {no}: it is (\w+) already", message.text, re.IGNORECASE)
    return f"{found[1]} already" if found else None


def as_sent(message: FakeMessage) -> str:
    """Return the text that a message had before it was edited."""
    return message.edits[0] if message.edits else message.text


def has_button(message: FakeMessage, label: str) -> bool:
    """Return whether there is such a button below a message."""
    return any(button["text"] == label for row in message.keyboard for button in row)


def _number(shown: FakeMessage) -> int:
    found = _REQUEST.search(shown.text)
    assert found is not None, shown.text
    return int(found[1])
