"""A conversation as it could go into a prompt: its parts, what each weighs, and what it is known by."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from daycare.agent import tokens
from daycare.agent.conversations import StampedTurn
from daycare.base.messages import Message
from daycare.plugin import InferRequest
from daycare.store.records_conversations import PastTurn
from daycare.store.records_prompts import digest_of_messages, digest_of_prompt


class Sight(msgspec.Struct, frozen=True):
    """Whether a model takes pictures, None: unknown, and how large."""

    images: bool | None
    image_max_bytes: int


class ContextView(msgspec.Struct):
    """A conversation as it could go into a prompt, each part with its tokens; `whole`: nothing is left out."""

    request: InferRequest  # without messages
    summary: Message | None
    turns: list[PastTurn]
    said: tuple[Message, ...]
    whole: bool
    fixed_tokens: int = 0  # the system's and the tools'
    tools_tokens: int = 0
    summary_tokens: int = 0
    turn_tokens: list[int] = []
    said_tokens: int = 0
    turn_digests: list[bytes] = []
    summary_through: int = 0
    sight: Sight = Sight(None, 0)

    @property
    def total(self) -> int:
        """All tokens, as estimated and not corrected."""
        return self.fixed_tokens + self.summary_tokens + sum(self.turn_tokens) + self.said_tokens

    def leave_out(self) -> int:
        """Leave the oldest turn out and return its number."""
        self.whole = False
        self.turn_tokens.pop(0)
        self.turn_digests.pop(0)
        return self.turns.pop(0).turn

    @property
    def digest(self) -> bytes:
        """What it is known by as a prompt."""
        summary = (digest_of_messages((self.summary,)),) if self.summary else ()
        return digest_of_prompt(self.request.system, (*summary, *self.turn_digests), self.said)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the prompt says, in order."""
        first = (self.summary,) if self.summary else ()
        return (*first, *(message for turn in self.turns for message in turn.messages), *self.said)


def viewed(
    request: InferRequest,
    summary: Message | None,
    turns: Sequence[StampedTurn],
    flat: tuple[Message, ...],
    *,
    whole: bool,
) -> ContextView:
    """Put a conversation together; `flat` are the messages of turns with files, and then what was said in this one."""
    at = 0
    shown_turns: list[PastTurn] = []
    turn_tokens: list[int] = []
    digests: list[bytes] = []
    for turn in turns:
        past, size, digest = turn.past, turn.tokens, turn.digest
        if turn.files:
            past = replace(past, messages=flat[at : at + len(past.messages)])
            at += len(past.messages)
            size = tokens.of_messages(past.messages, past=True)
            digest = digest_of_messages(past.messages)
        digests.append(digest)
        shown_turns.append(past)
        turn_tokens.append(size)
    tools_tokens = tokens.of_tools(request.tools)
    return ContextView(
        request,
        summary,
        shown_turns,
        flat[at:],
        whole,
        fixed_tokens=tokens.of_text(request.system) + tools_tokens,
        tools_tokens=tools_tokens,
        summary_tokens=tokens.of_message(summary) if summary else 0,
        turn_tokens=turn_tokens,
        turn_digests=digests,
        said_tokens=tokens.of_messages(flat[at:]),
    )


def cut(view: ContextView, keep: int, now: int) -> tuple[int, int]:
    """Return the first of the newest turns that have at most `keep` tokens (`now` if none), and what is older has."""
    kept = 0
    before = now
    for turn, size in zip(reversed(view.turns), reversed(view.turn_tokens), strict=True):
        if kept + size > keep:
            break
        kept += size
        before = turn.turn
    return before, sum(view.turn_tokens) - kept
