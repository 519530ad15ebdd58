"""Kept prompts in the store, and the turns that they were shown in."""

import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, ClassVar, Final

import msgspec

from daycare.base.messages import Message
from daycare.base.tool import ToolSpec
from daycare.features.history.followers import MARK, TOOLS, PromptFollower
from daycare.features.history.prompt_records import KeptLayout, KeptPrompt, PromptedTurn
from daycare.store.records_prompts import PromptPart
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import Select, those

_WHY: Final = "what models were shown here: it is made again from what is taken along"
_messages = msgspec.json.Decoder(tuple[Message, ...]).decode
_tools = msgspec.json.Decoder(tuple[ToolSpec, ...]).decode
_numbers = msgspec.msgpack.Decoder(tuple[int, ...]).decode


class PromptRows(Rows):
    """Prompts by turn."""

    tables: ClassVar = (
        Table("prompts", called="prompts", why=_WHY),
        Table("prompt_layouts", called="layouts of prompts", why=_WHY, own="agent_id = ?1", number="no"),
        Table("prompt_texts", called="sections of prompts", why=_WHY),
    )
    followers: ClassVar = (PromptFollower,)

    async def turn(self, turn: int) -> PromptedTurn | None:
        """Return a turn that has ended."""
        return _TURNS.one(self._reader, "t.turn = ?", (turn,))

    async def find(self, turn: int) -> list[KeptPrompt]:
        """Return what is kept of the prompts of a turn, the first first."""
        return _PROMPTS.find(self._reader, "turn = ? ORDER BY said", (turn,))

    async def layout(self, no: int, mark: str) -> KeptLayout | None:
        """Return a layout with `mark` in its texts, None if it, or one of them, is not kept any longer."""
        row = self._reader.execute(
            "SELECT parts, zone, room, images, image_max_bytes FROM prompt_layouts WHERE no = ?", (no,)
        ).fetchone()
        if row is None:
            return None
        parts: list[tuple[str, int, bool]] = msgspec.json.decode(str(row[0]))
        texts = self._texts([number for _, number, _ in parts])
        if len(texts) < len({number for _, number, _ in parts}):
            return None
        found = [PromptPart(name, texts[number].replace(MARK, mark), cut) for name, number, cut in parts]
        return KeptLayout(
            parts=tuple(part for part in found if part.name != TOOLS),
            tools=next((_tools(part.text) for part in found if part.name == TOOLS), ()),
            zone=str(row[1]),
            room=int(str(row[2])),
            images=None if row[3] is None else bool(row[3]),
            image_max_bytes=int(str(row[4])),
        )

    async def forgotten(self, turns: Sequence[int]) -> list[int]:
        """Return those of the turns whose words were forgotten."""
        rows = self._reader.execute(
            "SELECT turn FROM forgotten_turns WHERE turn IN (SELECT value FROM carray(?)) ORDER BY turn",
            (those(turns),),
        )
        return [int(str(turn)) for (turn,) in rows]

    def _texts(self, numbers: Sequence[int]) -> dict[int, str]:
        rows = self._reader.execute(
            "SELECT no, body FROM prompt_texts WHERE no IN (SELECT value FROM carray(?))", (those(numbers),)
        )
        return {int(str(no)): zlib.decompress(bytes(body)).decode(errors="surrogatepass") for no, body in rows}


def _prompt(row: tuple[Any, ...]) -> KeptPrompt:
    said, since, layout, summary, first, recalled, kept, hash_ = row
    return KeptPrompt(
        said=said,
        since=since,
        layout=layout,
        summary=summary,
        first=first,
        recalled=tuple(accumulate(_numbers(recalled))) if recalled else (),
        kept=_messages(zlib.decompress(kept)) if kept else (),
        hash=hash_,
    )


def _turn(row: tuple[Any, ...]) -> PromptedTurn:
    turn, agent_id, path, user, session, trace, started_at, state, messages = row
    return PromptedTurn(
        turn=turn,
        agent_id=agent_id,
        path=path,
        user=user,
        session=session,
        trace=trace,
        started_at=started_at,
        state=state,
        messages=_messages(messages),
    )


_PROMPTS = Select("said, said_first, layout, summary, first, recalled, kept, hash", "prompts", _prompt)
_TURNS = Select(
    "t.turn, t.agent_id, a.path, t.user, t.session, t.trace, t.started_at, h.state, unpacked(h.messages)",
    "turns t JOIN history h ON h.turn = t.turn JOIN agents a ON a.id = t.agent_id",
    _turn,
)
