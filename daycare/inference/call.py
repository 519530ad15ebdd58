"""One call of a model: holds any provider, ours or a plugin's, to the contract of `daycare.plugin.Provider`."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Final, Literal

import trio
from msgspec.structs import replace

from daycare.base.errors import UnavailableError
from daycare.base.limits import MODEL_FIRST_TOKEN_S, MODEL_NEXT_TOKEN_S, REPLY_MAX_CHARS
from daycare.base.messages import Text
from daycare.base.veil import Veil
from daycare.inference.thoughts import Spoken, spoken
from daycare.plugin import Completion, InferRequest, Provider, StreamEvent

PIECES_AT_ONCE: Final = 64  # taken before others have their turn, some ms with all who are told of them

_END: Final = "end"
_AT_ONCE_CHARS: Final = 4_000  # of one piece: some 10 ms


async def call(
    provider: Provider,
    request: InferRequest,
    on_delta: Callable[[str], None],
    alive: Callable[[], None],
    answered: Callable[[Completion], None],
    ends_at: float,
) -> Completion:
    """Make one call; `on_delta` gets the text piece by piece, `alive` is called with each sign of life.

    `answered` gets the whole reply as soon as it is there: it was paid for, even if the call fails or is cancelled yet.

    Thoughts within the text (`thoughts`) are left out of both, and known secrets of the pieces.

    Raises what the provider raises, and `UnavailableError` for one that stays silent (MODEL_SILENT), is not done at
    `ends_at` on trio's clock (MODEL_LATE), talks without end (REPLY_TOO_LARGE) or ends otherwise than with one
    completion (STREAM_CUT). Text given to `on_delta` before an error is void.
    """
    completion: Completion | None = None
    chars = pieces = 0
    said, veil = Spoken(), Veil()
    wait_s = MODEL_FIRST_TOKEN_S
    async with aclosing(provider.infer(request)) as events:
        while True:
            event: StreamEvent | Literal["end"] | None = None
            with trio.move_on_at(min(trio.current_time() + wait_s, ends_at)):
                event = await anext(events, _END)
            if event is None and trio.current_time() >= ends_at:
                raise _failed("MODEL_LATE", provider, request, "the reply was not finished in time")
            if event is None:
                raise _failed("MODEL_SILENT", provider, request, f"no word came for {wait_s:g} s")
            if event == _END:
                break
            alive()
            if completion is not None:
                raise _failed("STREAM_CUT", provider, request, "the stream went on after the reply's end")
            if isinstance(event, Completion):
                completion = _spoken(event)
                answered(event)
            else:
                chars += len(event.text)
                if chars > REPLY_MAX_CHARS:
                    raise _failed("REPLY_TOO_LARGE", provider, request, f"it is longer than {REPLY_MAX_CHARS}")
                if words := await _veiled(veil, said.feed(event.text)):  # none is a sign of life
                    on_delta(words)
            wait_s = MODEL_NEXT_TOKEN_S
            pieces += 1
            if pieces % PIECES_AT_ONCE == 0:  # a stream that has all its pieces ready never waits by itself
                await trio.lowlevel.checkpoint()
    if completion is None:
        raise _failed("STREAM_CUT", provider, request, "the stream ended before the reply did")
    if words := veil.feed(said.end()) + veil.end():
        on_delta(words)
    return completion


async def _veiled(veil: Veil, words: str) -> str:
    """Return what can be shown after these words; a long piece is looked through in a thread."""
    if len(words) <= _AT_ONCE_CHARS:
        return veil.feed(words)
    return await trio.to_thread.run_sync(veil.feed, words)


def _spoken(completion: Completion) -> Completion:
    """Return a reply without the thoughts in its text."""
    parts = tuple(Text(spoken(part.text)) if isinstance(part, Text) else part for part in completion.message.parts)
    if parts == completion.message.parts:
        return completion
    kept = tuple(part for part in parts if not isinstance(part, Text) or part.text)
    return replace(completion, message=replace(completion.message, parts=kept))


def _failed(code: str, provider: Provider, request: InferRequest, why: str) -> UnavailableError:
    return UnavailableError(code, f"Model call to {provider.name}/{request.model} failed: {why}")
