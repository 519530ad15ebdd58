"""How many tokens a prompt has: an estimate of ours, corrected by what the provider counted; and how many it may have.

No tokenizer is asked: each vendor has its own, and some give none. English has about 4 letters a token. UTF-8 bytes
tell other scripts apart: a Chinese character has 3 bytes and is about a token, a Cyrillic letter has 2 and is about
two thirds of one. What the estimate is wrong by (code, tables, a tokenizer's taste) is much the same from one call of a
conversation to the next, so the last call's count corrects the next estimate: for the part they share it is exact.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from daycare.base.bounded import Bounded, MadeOnce
from daycare.base.limits import AUDIO_TOKENS_A_S, CONTEXT_KNOWN_MAX, CONTEXT_OUTPUT_TOKENS, TOOLS_KNOWN_MAX
from daycare.base.messages import Audio, File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from daycare.inference.catalog import ModelFacts
from daycare.plugin import InferRequest, ToolSpec

CONTEXT_MAX_TOKENS: Final = 200_000  # of a model's window that is used: past it a call costs a dollar and answers blur
CONTEXT_RESERVE_SHARE: Final = 0.05  # of the window, for what the estimate of tokens is wrong by
CONTEXT_REFUSED_S: Final = 3_600.0  # for which a prompt as long as a refused one is not tried again
COMPACT_AT_SHARE: Final = 0.8  # of the budget: what is left takes a turn with several tool results
COMPACT_KEEP_SHARE: Final = 0.3  # of the budget for the newest turns, word by word: what is being talked about
SUMMARY_SHARE: Final = 0.1  # of the budget
SUMMARY_MAX_TOKENS: Final = 4_000  # some 3,000 words; longer ones are lists that nobody reads

CHARS_PER_TOKEN: Final = 4  # of ASCII; of other scripts fewer
_OTHER_BYTES: Final = 3  # a token
_OTHERS: Final = bytes(range(0x80, 0x100))
_MESSAGE: Final = 4  # role and separators of one message
_CALL: Final = 8  # ids and names around a call or a result
_IMAGE: Final = 1_600  # what vendors count at most for a picture, which they make smaller before
_FILE: Final = 40  # its name; a text file stands in a message as text
_LEARN_FROM: Final = 1_000  # in smaller prompts what vendors add by themselves outweighs the text
_RATIO: Final = (0.5, 3.0)  # no tokenizer is further off; a server that says so does not count
_REFUSED_SHARE: Final = 0.75  # of a prompt that was too long: what is tried next


def of_text(text: str) -> int:
    """Return about how many tokens a text has."""
    if text.isascii():
        return -(-len(text) // CHARS_PER_TOKEN)
    odd = [line for line in text.split("\n") if not line.isascii()]  # of a prompt mostly a few
    encoded = "".join(odd).encode("utf-8", "replace")
    others = len(encoded) - len(encoded.translate(None, _OTHERS))
    ascii_chars = len(text) - sum(map(len, odd)) + len(encoded) - others
    return -(-ascii_chars // CHARS_PER_TOKEN) + -(-others // _OTHER_BYTES)


def of_message(message: Message, *, past: bool = False) -> int:
    """Return about how many tokens a message has; of a `past` turn no provider reads what was thought."""
    return _MESSAGE + sum(_of_part(part) for part in message.parts if not (past and isinstance(part, Thinking)))


def of_messages(messages: Iterable[Message], *, past: bool = False) -> int:
    """Return about how many tokens messages have."""
    return sum(of_message(message, past=past) for message in messages)


def of_request(request: InferRequest) -> int:
    """Return about how many tokens a whole prompt has."""
    return of_text(request.system) + of_tools(request.tools) + of_messages(request.messages)


def of_tools(tools: Sequence[ToolSpec]) -> int:
    """Return about how many tokens the descriptions of tools have."""
    return sum(map(_tools.of, tools))


def _of_tool(tool: ToolSpec) -> int:
    return _CALL + of_text(msgspec.json.encode((tool.name, tool.description, tool.schema)).decode())


_tools: Final = MadeOnce(_of_tool, TOOLS_KNOWN_MAX)


def _of_part(part: Part) -> int:
    match part:
        case Text():
            return of_text(part.text)
        case ToolResult():
            return _CALL + of_text(part.text)
        case ToolCall():
            return _CALL + of_text(part.name) + of_text(msgspec.json.encode(part.arguments).decode())
        case Thinking():
            return of_text(msgspec.json.encode(part.data).decode())
        case Image():
            return _IMAGE
        case Audio():
            return round(AUDIO_TOKENS_A_S * part.seconds)
        case File():
            return _FILE


class TokenBudget(msgspec.Struct, frozen=True):
    """What of a model's context a prompt may take, in tokens: `total` is the window without `room` and `reserve`.

    `room` is kept for the answer, `reserve` for what the estimate is wrong by. Past `compact_at` older turns are
    compacted; `keep` of the newest stay as they are; a summary may have `summary`.
    """

    window: int
    room: int
    reserve: int
    total: int
    compact_at: int
    keep: int
    summary: int


def budget_of(facts: ModelFacts, at_most: int | None = None) -> TokenBudget:
    """Return the budget of a model's calls; `at_most` bounds `total` further."""
    window = min(facts.context_tokens, CONTEXT_MAX_TOKENS)
    room = min(facts.output_tokens, CONTEXT_OUTPUT_TOKENS, window // 4)
    reserve = int(window * CONTEXT_RESERVE_SHARE)
    total = window - room - reserve
    if at_most is not None:
        total = min(total, at_most)
    return TokenBudget(
        window,
        room,
        reserve,
        total,
        compact_at=int(total * COMPACT_AT_SHARE),
        keep=int(total * COMPACT_KEEP_SHARE),
        summary=min(int(total * SUMMARY_SHARE), SUMMARY_MAX_TOKENS),
    )


class LearnedRatio(msgspec.Struct):
    """What calls of a model for an agent have taught: tokens counted for each estimated, and which total to try.

    `at_most` holds until `until_ms`, by the clock that nobody sets: a model's window, or the server behind it, may
    become larger.
    """

    ratio: float = 1.0
    at_most: int | None = None
    until_ms: int = 0

    def total_at(self, now_ms: int) -> int | None:
        """Return the largest total to be tried, if one was refused lately."""
        return self.at_most if now_ms < self.until_ms else None


class TokenRatios:
    """What is learned of each (agent, model), the latest used ones; lost with the daemon, and learned again."""

    def __init__(self) -> None:
        self._known: Bounded[tuple[str, str], LearnedRatio] = Bounded(CONTEXT_KNOWN_MAX)

    def of(self, agent_id: str, model: str) -> LearnedRatio:
        """Return what is known, to be read or taught."""
        return self._known.touch((agent_id, model), LearnedRatio())

    def counted(self, agent_id: str, model: str, estimated: int, counted: int) -> None:
        """Learn from the provider's own count of a prompt that was estimated, uncorrected, at `estimated`."""
        if counted <= 0 or estimated < _LEARN_FROM:
            return
        ratio = counted / estimated
        if _RATIO[0] <= ratio <= _RATIO[1]:
            self.of(agent_id, model).ratio = ratio

    def refused(self, agent_id: str, model: str, corrected: int, now_ms: int) -> int:
        """Learn that a prompt of so many tokens, as corrected, was too long; return the total to try next."""
        known = self.of(agent_id, model)
        known.at_most = int(min(corrected, known.total_at(now_ms) or corrected) * _REFUSED_SHARE)
        known.until_ms = now_ms + int(CONTEXT_REFUSED_S * 1000)
        return known.at_most
