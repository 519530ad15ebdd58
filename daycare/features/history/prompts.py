"""What a model was shown, made again from what is kept of it, and compared with what was sent."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from daycare.agent import tokens
from daycare.agent.context import Contexts, ContextView, Sight
from daycare.agent.prompt import recalled_parts, request_of
from daycare.base.errors import NotFoundError
from daycare.base.messages import Message
from daycare.features.history.prompt_records import (
    KeptLayout,
    KeptPrompt,
    LeftOutOfPrompt,
    PromptedTurn,
    PromptMessages,
    PromptSection,
    RecalledPart,
    ShownToModel,
)
from daycare.features.history.prompt_rows import PromptRows
from daycare.store.records import Summary
from daycare.store.records_prompts import PromptBase, PromptPart
from daycare.store.sqlite.store import Store

# What a prompt of the agent at a path shows of memories by their numbers, in a zone: blocks (tier, lines),
# and (label, tier, text) of each that is kept.
Recalled = tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str, str]]]
Recall = Callable[[str, str, Sequence[int]], Awaitable[Recalled]]
SUMMARIES_MAX: Final = 1_000  # of a session, looked through for the one that stood in a prompt

_ALL: Final = 2**62
_GONE: Final = "its sections are not kept any longer: they have expired, or what may have stood in them was forgotten"


class PromptHistory:
    """Shows prompts. `mark_of` returns the mark of data in a session of an agent."""

    def __init__(self, store: Store, contexts: Contexts, recall: Recall, mark_of: Callable[[str, int], str]) -> None:
        self._store = store
        self._rows = store.of(PromptRows)
        self._contexts = contexts
        self._recall = recall
        self._mark_of = mark_of

    async def turn(self, number: int) -> PromptedTurn:
        """Return a turn that has ended. Raises `NotFoundError` TURN_UNKNOWN."""
        turn = await self._rows.turn(number)
        if turn is None:
            raise unknown(number)
        return turn

    async def of(self, turn: PromptedTurn, call: int | None = None) -> ShownToModel:
        """Return what a call of a model in a turn was shown, the last one for None.

        Raises `NotFoundError` PROMPT_UNKNOWN where nothing is kept of it.
        """
        rows = await self._rows.find(turn.turn)
        places = [at for at, message in enumerate(turn.messages) if message.role == "assistant"]
        calls = {number: at for number, at in enumerate(places, 1) if _covering(rows, at) is not None}
        call = max(calls, default=0) if call is None else call
        if call not in calls:
            raise NotFoundError(
                "PROMPT_UNKNOWN",
                f"showing call {call} of turn {turn.turn}: what its model was shown is not kept",
                hint=f"calls that are: {', '.join(map(str, calls))}"
                if calls
                else "no model answered in this turn, or it has expired ([store] keep_days)",
            )
        row = _covering(rows, calls[call])
        assert row is not None
        layout = await self._rows.layout(row.layout, self._mark_of(turn.agent_id, turn.session))
        return await self._shown(turn, row, layout, calls[call], call, len(places), tuple(calls))

    async def _shown(
        self,
        turn: PromptedTurn,
        row: KeptPrompt,
        layout: KeptLayout | None,
        at: int,
        call: int,
        calls: int,
        kept_calls: tuple[int, ...],
    ) -> ShownToModel:
        is_kept, layout = (
            layout is not None,
            layout or KeptLayout(parts=(), tools=(), zone="UTC", room=0, images=None, image_max_bytes=0),
        )
        blocks, memories = await self._recall(turn.path, layout.zone, row.recalled)
        base = PromptBase(layout.parts, self._mark_of(turn.agent_id, turn.session), layout.zone, layout.room, b"")
        parts = (*layout.parts, *recalled_parts(base, blocks)) if is_kept else ()
        view = await self._view(turn, row, layout, parts, at)
        exact, changed = view.digest == row.hash, ""
        if at != row.said:  # the hash is of the last of these calls: of which this one is the beginning
            whole = await self._view(turn, row, layout, parts, row.said)
            exact = whole.digest == row.hash
        if not exact:
            changed = await self._why(turn, row, view, missing=len(row.recalled) - len(memories), is_kept=is_kept)
        return ShownToModel(
            turn=turn.turn,
            path=turn.path,
            session=turn.session,
            trace=turn.trace,
            at_ms=turn.started_at,
            call=call,
            calls=calls,
            kept_calls=kept_calls,
            exact=exact,
            changed=changed,
            tokens=view.total,
            tools_tokens=view.tools_tokens,
            sections=tuple(
                PromptSection(name=part.name, tokens=tokens.of_text(part.text), text=part.text, cut=part.cut)
                for part in parts
            ),
            tools=layout.tools,
            conversation=_conversation(view, turn.turn),
            recalled=tuple(RecalledPart(label=label, tier=tier, text=text) for label, tier, text in memories),
            left_out=LeftOutOfPrompt(
                sections=tuple(part.name for part in parts if part.cut),
                summary_through=row.summary,
                turns=await self._left_out(turn, row),
                results=_shortened(turn, row),
            ),
        )

    async def _view(
        self, turn: PromptedTurn, row: KeptPrompt, layout: KeptLayout, parts: Sequence[PromptPart], at: int
    ) -> ContextView:
        """Put a prompt together that had `at` messages of its turn."""
        base = PromptBase(tuple(parts), "", layout.zone, layout.room, b"")
        request = replace(request_of(base, ()), tools=layout.tools)
        past = await self._contexts.conversations.apart(
            turn.agent_id, turn.session, layout.zone, after=row.first - 1 if row.first else turn.turn, before=turn.turn
        )
        added = len(row.kept) - row.said if row.kept else 0  # what plugins said comes first
        said = row.kept[: added + at] if row.kept else turn.messages[:at]
        sight = Sight(layout.images, layout.image_max_bytes)
        summary = await self._summary(turn, row.summary)
        return await self._contexts.put_together(turn.user, layout.zone, request, summary, past, said, sight)

    async def _summary(self, turn: PromptedTurn, through: int) -> Summary | None:
        if not through:
            return None
        found = await self._store.summaries.find(turn.agent_id, turn.session, SUMMARIES_MAX)
        return next((each for each in found if each.through == through), None)

    async def _left_out(self, turn: PromptedTurn, row: KeptPrompt) -> int:
        """Return how many turns stood in a prompt neither as they are nor in its summary."""
        before = row.first or turn.turn
        past = await self._store.summaries.newest(
            turn.agent_id, turn.session, after=row.summary, before=before, max_chars=_ALL
        )
        return len(past.turns)

    async def _why(self, turn: PromptedTurn, row: KeptPrompt, view: ContextView, *, missing: int, is_kept: bool) -> str:
        """Return why a prompt is not what it was."""
        if not is_kept:
            return _GONE
        if row.summary and view.summary is None:
            return "a summary that stood in it is not kept any longer"
        if missing:
            return f"memories that stood in it were forgotten or have expired: {missing}"
        shown = [each.turn for each in view.turns]
        if gone := await self._rows.forgotten([*shown, turn.turn]):
            return f"turns that stood in it were forgotten: {', '.join(map(str, gone))}"
        return (
            "something that stood in it was changed since: a memory, a file, or how this version of daycare writes it"
        )


def unknown(number: int) -> NotFoundError:
    """Return the error for a turn that there is not, or not for who asks."""
    return NotFoundError(
        "TURN_UNKNOWN", f"looking at turn {number}: there is none that has ended", hint="daycare history PATH"
    )


def _covering(rows: Sequence[KeptPrompt], at: int) -> KeptPrompt | None:
    return next((row for row in rows if row.since <= at <= row.said), None)


def _conversation(view: ContextView, turn: int) -> tuple[PromptMessages, ...]:
    found = []
    if view.summary is not None:
        found.append(_told(0, view.summary_tokens, (view.summary,)))
    found += [_told(each.turn, size, each.messages) for each, size in zip(view.turns, view.turn_tokens, strict=True)]
    return (*found, _told(turn, view.said_tokens, view.said))


def _told(turn: int, size: int, messages: Sequence[Message]) -> PromptMessages:
    return PromptMessages(turn=turn, tokens=size, messages=tuple(msgspec.to_builtins(each) for each in messages))


def _shortened(turn: PromptedTurn, row: KeptPrompt) -> int:
    if not row.kept:
        return 0
    own = row.kept[len(row.kept) - row.said :]
    return sum(kept.parts != said.parts for kept, said in zip(own, turn.messages, strict=False) if said.role == "tool")
