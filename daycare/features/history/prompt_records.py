"""A prompt as it is kept, and as it is shown to people."""

from typing import Any

import msgspec

from daycare.base.messages import Message
from daycare.base.tool import ToolSpec
from daycare.store.records_prompts import PromptPart


class KeptPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A row: calls of a turn, from the one that had `since` of its messages to the one that had `said`."""

    said: int
    since: int
    layout: int
    summary: int
    first: int
    recalled: tuple[int, ...]
    kept: tuple[Message, ...]
    hash: bytes


class KeptLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What was the same from turn to turn: the sections and the tools. `mark` has to be put into the texts."""

    parts: tuple[PromptPart, ...]
    tools: tuple[ToolSpec, ...]
    zone: str
    room: int
    images: bool | None
    image_max_bytes: int


class PromptedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended, with its messages and the models that were asked in it."""

    turn: int
    agent_id: str
    path: str
    user: str
    session: int
    trace: str
    started_at: int
    state: str
    messages: tuple[Message, ...]


class PromptSection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A section of the system prompt. `cut`: not all of it had room."""

    name: str
    tokens: int
    text: str
    cut: bool = False


class PromptMessages(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Messages in the order in which the model read them. `turn` 0: the summary of what was before."""

    turn: int
    tokens: int
    messages: tuple[dict[str, Any], ...]


class RecalledPart(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that stood in a prompt, by its label."""

    label: str
    tier: str
    text: str


class LeftOutOfPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What did not stand in a prompt for want of room.

    `sections` were cut. Turns up to `summary_through` stood in it as a summary, `turns` later ones not at all; of
    `results` of this turn's tools both ends did.
    """

    sections: tuple[str, ...] = ()
    summary_through: int = 0
    turns: int = 0
    results: int = 0


class ShownToModel(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was shown in call `call` of `calls` of a turn; `kept_calls` are those that can be shown.

    `exact`: it is byte for byte what was sent, by its hash; else `changed` says why it cannot be. Tokens are estimates.
    """

    turn: int
    path: str
    session: int
    trace: str
    at_ms: int
    call: int
    calls: int
    kept_calls: tuple[int, ...]
    exact: bool
    changed: str
    tokens: int
    tools_tokens: int
    sections: tuple[PromptSection, ...]
    tools: tuple[ToolSpec, ...]
    conversation: tuple[PromptMessages, ...]
    recalled: tuple[RecalledPart, ...]
    left_out: LeftOutOfPrompt
