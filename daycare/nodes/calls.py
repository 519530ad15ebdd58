"""Calls that another node has to answer: it has what they are about in memory.

Whoever a call concerns answers it, so nobody has to know which node that is. A call whose node dies, or that gets lost,
ends with an error that says to ask again: so what is asked may be done twice, and changes nothing the second time.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec
import trio

from daycare.base import errors
from daycare.base.errors import DaycareError, UnavailableError
from daycare.base.ids import new_trace_id
from daycare.nodes.talk import NodeTalk
from daycare.observe import log

NODE_CALL_S: Final = 5.0  # who asked can ask again
NODE_CALLS_MAX: Final = 64  # of other nodes that are served at the same time; more are not answered

_ASK: Final = "ask"
_ANSWER: Final = "answer"
_KINDS: Final = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, DaycareError)
}

Serve = Callable[[bytes], Awaitable[bytes | None]]


class NodeQuestion(msgspec.Struct, array_like=True):
    """A call by name."""

    ref: str
    name: str
    arguments: msgspec.Raw


class NodeRefusal(msgspec.Struct, array_like=True):
    """What was raised instead of an answer."""

    kind: str
    code: str
    message: str
    hint: str
    retry_after_s: float | None


class NodeAnswer(msgspec.Struct, array_like=True):
    """What came of a call: one of both."""

    ref: str
    result: msgspec.Raw
    refusal: NodeRefusal | None = None


_encode: Final = msgspec.json.Encoder().encode
_question: Final = msgspec.json.Decoder(NodeQuestion).decode
_answer: Final = msgspec.json.Decoder(NodeAnswer).decode


class NodeCalls:
    """Asks other nodes, and answers them while it runs. What is served takes JSON, and returns None if it is not for
    this node to answer.
    """

    def __init__(self, talk: NodeTalk) -> None:
        self._talk = talk
        self._served: dict[str, Serve] = {}
        self._waiting: dict[str, trio.MemorySendChannel[NodeAnswer]] = {}
        self._asked, self._to_serve = trio.open_memory_channel[NodeQuestion](NODE_CALLS_MAX)
        talk.on(_ASK, self._hear_question)
        talk.on(_ANSWER, self._hear_answer)

    def serve(self, name: str, answer: Serve) -> None:
        """Answer calls of a name."""
        self._served[name] = answer

    async def ask(self, name: str, arguments: bytes, about: str) -> bytes:
        """Have the node answer that can. Raises what it does, and `UnavailableError` NODE_SILENT, which names what the
        call is `about`: nobody has answered within NODE_CALL_S, and it may have been done.
        """
        found = await self._answer_to(name, arguments)
        if found is None:
            raise UnavailableError(
                "NODE_SILENT",
                f"{about}: the node that works for this user has not answered within {NODE_CALL_S:g} s",
                hint="ask again in a moment: another node takes its place",
                retry_after_s=NODE_CALL_S,
            )
        if (refusal := found.refusal) is not None:
            kind = _KINDS.get(refusal.kind, DaycareError)
            raise kind(refusal.code, refusal.message, hint=refusal.hint, retry_after_s=refusal.retry_after_s)
        return bytes(found.result)

    async def _answer_to(self, name: str, arguments: bytes) -> NodeAnswer | None:
        ref = new_trace_id()
        self._waiting[ref], answered = trio.open_memory_channel[NodeAnswer](1)
        try:
            with trio.move_on_after(NODE_CALL_S):
                if await self._talk.tell(_ASK, _encode(NodeQuestion(ref, name, msgspec.Raw(arguments)))):
                    return await answered.receive()
        finally:
            del self._waiting[ref]
        return None

    async def run(self) -> None:
        """Answer other nodes until cancelled."""
        limit = trio.CapacityLimiter(NODE_CALLS_MAX)
        async with trio.open_nursery() as nursery:
            while True:
                question = await self._to_serve.receive()
                await limit.acquire_on_behalf_of(question.ref)
                nursery.start_soon(self._serve, question, limit)

    async def _serve(self, question: NodeQuestion, limit: trio.CapacityLimiter) -> None:
        try:
            with trio.move_on_after(NODE_CALL_S):
                answer = await self._answered(question)
                if answer is not None:
                    await self._talk.tell(_ANSWER, _encode(answer))
        finally:
            limit.release_on_behalf_of(question.ref)

    async def _answered(self, question: NodeQuestion) -> NodeAnswer | None:
        nothing = msgspec.Raw(b"null")
        try:
            result = await self._served[question.name](bytes(question.arguments))
            return None if result is None else NodeAnswer(question.ref, msgspec.Raw(result))
        except DaycareError as error:
            kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS)
            told = NodeRefusal(kind, error.code, error.message, error.hint, error.retry_after_s)
            return NodeAnswer(question.ref, nothing, told)

    def _hear_question(self, node: str, words: bytes) -> None:
        question = _question(words)
        if question.name in self._served:
            try:
                self._asked.send_nowait(question)
            except trio.WouldBlock:
                log.logger().warning("node.asked_too_much", node=node, name=question.name)

    def _hear_answer(self, node: str, words: bytes) -> None:
        found = _answer(words)
        if (waiting := self._waiting.get(found.ref)) is not None:
            with suppress(trio.WouldBlock):  # it has an answer already
                waiting.send_nowait(found)
