"""Prompts as they were shown to a model: what is kept of each, so that it can be made again and compared."""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from daycare.base.messages import Message
from daycare.base.tool import ToolSpec

_encode = msgspec.msgpack.Encoder().encode


class PromptPart(msgspec.Struct, frozen=True):
    """A section of a system prompt, as it stands there; `cut`: some of it had no room."""

    name: str
    text: str
    cut: bool = False


class PromptBase(msgspec.Struct, frozen=True):
    """What stands in a system prompt before what is recalled, and stays from turn to turn.

    `mark` is that of the session's data blocks, `zone` the user's; `room` are the tokens left for what is recalled.
    `at_ms` is when it was read.
    """

    parts: tuple[PromptPart, ...]
    mark: str
    zone: str
    room: int
    digest: bytes
    at_ms: int = 0


class ShownPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was shown in one call of a turn, by what it was made of.

    `said` is how many messages of the turn it had; the same with fewer of them was shown from `since` on. `replaces` is
    the number of the row before that this one stands for as well. `summary` is the turn up to which a summary stood in
    it, `first` the oldest that did by itself, 0 for none. `recalled` are numbers of memories. `kept` are the turn's
    messages where they are not those of its history, as JSON. `digest` is of all of it.
    """

    turn: int
    agent_id: str
    user: str
    said: int
    since: int
    replaces: int | None = None
    base: PromptBase
    tools: tuple[ToolSpec, ...]
    images: bool | None
    image_max_bytes: int
    summary: int
    first: int
    recalled: tuple[int, ...]
    kept: bytes
    digest: bytes

    def goes_on(self, before: "ShownPrompt | None") -> "ShownPrompt":
        """Return it as the successor of the one before in its turn, whose place it takes if it only grew."""
        if before is None or self.said < before.said or _frame(before) != _frame(self):
            return self
        return msgspec.structs.replace(self, since=before.since, replaces=before.said)


def _frame(it: ShownPrompt) -> tuple[object, ...]:
    """Return all that is the same in two prompts of which one only has more messages of the turn."""
    made_of = (it.base.digest, it.summary, it.first, it.recalled, it.kept)
    return (*made_of, it.images, it.image_max_bytes, it.tools)


def digest_of_base(parts: Sequence[PromptPart], zone: str, room: int) -> bytes:
    """Return what a base is known by."""
    return blake2b(_encode((parts, zone, room)), digest_size=16).digest()


def digest_of_messages(messages: Sequence[Message]) -> bytes:
    """Return what messages are known by as a model reads them: who says what."""
    return blake2b(_encode([(each.role, each.parts) for each in messages]), digest_size=8).digest()


def digest_of_prompt(system: str, turns: Sequence[bytes], said: Sequence[Message]) -> bytes:
    """Return what a prompt is known by: `turns` are the digests of what was said before."""
    whole = blake2b(system.encode(errors="surrogatepass"), digest_size=8)
    for each in (*turns, digest_of_messages(said)):
        whole.update(each)
    return whole.digest()
