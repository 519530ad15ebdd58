"""An answer as it comes, in the words of either protocol. Tools that the agent uses meanwhile are told as comments.

What was streamed is a preview; what the reply has beyond it follows at the end.
"""

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec
import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daycare.api.following import follow
from daycare.api.replies import spoken
from daycare.api.wanted import while_wanted
from daycare.base.errors import DaycareError
from daycare.base.events import Event, ToolStarted, TurnDelta
from daycare.features.openai.talking import Talking
from daycare.observe.bus import Subscription
from daycare.store.records import Receipt

OPENAI_KEEPALIVE_S: Final = 10.0  # a comment, so that no proxy takes a long turn for a dead one

encode: Final = msgspec.json.Encoder().encode


class StreamWords(Protocol):
    """How a protocol tells an answer; each returns what is sent, events of a stream."""

    def begun(self) -> Iterable[bytes]:
        """Tell that there will be an answer."""
        ...

    def more(self, text: str) -> Iterable[bytes]:
        """Tell words of it."""
        ...

    def ended(self, text: str, tokens: tuple[int, int]) -> Iterable[bytes]:
        """Tell that `text` is all of it, with the tokens given to models and made by them."""
        ...

    def failed(self, error: DaycareError) -> Iterable[bytes]:
        """Tell why there is none."""
        ...


def event(document: Any, name: str = "") -> bytes:
    """Return a document as an event of a stream."""
    head = b"event: %s\n" % name.encode() if name else b""
    return head + b"data: %s\n\n" % encode(document)


class AnswerStream(Response):
    """The answer to a message. Who goes away leaves it where it is: the same Idempotency-Key finds it again."""

    def __init__(self, talking: Talking, heard: Subscription, receipt: Receipt, told: StreamWords) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._talking = talking
        self._heard = heard
        self._receipt = receipt
        self._words = told
        self._sent = ""
        self._shown = ""  # of what the model says at the moment
        self._parted = False  # it said something before that, and used a tool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with self._heard, while_wanted(self._talking.closing, receive):
            try:
                await self._write(send, self._words.begun())
                receipt = await self._follow(send)
                rows = await self._talking.replies(receipt)
                if rest := self._rest(spoken(rows, receipt)):
                    await self._say(send, rest)
                await self._write(send, self._words.ended(self._sent, await self._talking.tokens(receipt.turn)))
                await self._talking.confirm(rows)
            except DaycareError as error:
                await self._write(send, self._words.failed(error))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(self, send: Send) -> Receipt:
        """Pass on what is heard until there is an answer, which is returned."""

        async def tell(it: Event | None) -> None:
            if it is None:
                await self._write(send, [b": still here\n\n"])
            elif isinstance(it, TurnDelta):
                parted = "\n\n" if self._parted and not self._shown else ""
                self._shown += it.text
                await self._say(send, parted + it.text)
            elif isinstance(it, ToolStarted):
                self._parted, self._shown = self._parted or bool(self._shown), ""
                await self._write(send, [f": tool {it.tool}\n\n".encode()])

        return await follow(self._talking.router, self._receipt, self._heard, tell, quiet_s=OPENAI_KEEPALIVE_S)

    def _rest(self, text: str) -> str:
        """Return what is to be sent yet of the reply, all of it if what was streamed is something else."""
        if text.startswith(self._shown):
            return ("\n\n" if self._parted and not self._shown and text else "") + text[len(self._shown) :]
        return f"\n\n{text}"

    async def _say(self, send: Send, text: str) -> None:
        self._sent += text
        await self._write(send, self._words.more(text))

    async def _write(self, send: Send, events: Iterable[bytes]) -> None:
        with trio.CancelScope(shield=True):  # an event is sent whole; a reader that hangs is cut by the server
            await send({"type": "http.response.body", "body": b"".join(events), "more_body": True})
