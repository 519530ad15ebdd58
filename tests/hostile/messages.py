"""Messages of people: generated text through the door of terminals, answered by rules or by a model that echoes it."""

from pathlib import Path
from random import Random
from typing import Any

import msgspec

from daycare.plugin import Completion, Inbound, InferRequest, OutputSpec
from daycare.testing.scripted import say
from tests.hostile import texts
from tests.hostile.stage import PEOPLE, Streaming, at_once, opened, said
from tests.hostile.trial import Prepared, Trial


def echo(request: InferRequest) -> Completion:
    """Answer with what was said; a memory worker learns all of it."""
    last = next((each.text for each in reversed(request.messages) if each.role == "user"), "")
    if request.output is not None:
        return say(learned(request.output, last))
    return say(last.partition("] ")[2] or last)


def learned(output: OutputSpec, text: str) -> str:
    """Return JSON that fits a schema, made of a text."""
    return msgspec.json.encode(_fitting(output.schema, text.encode("utf-8", "replace").decode(), 0)).decode()


def _fitting(schema: dict[str, Any], text: str, depth: int) -> Any:
    if "enum" in schema:
        return schema["enum"][len(text) % len(schema["enum"])]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _fitting(schema[several][0], text, depth)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {
            name: _fitting(each, text[7 * number :] or text, depth + 1)
            for number, (name, each) in enumerate(schema.get("properties", {}).items())
        }
    if kind == "array":
        lines = text.splitlines()[:5] or [text]
        return [_fitting(schema.get("items", {}), line, depth + 1) for line in lines]
    if kind in ("integer", "number"):
        return len(text) % 7
    return len(text) % 2 == 0 if kind == "boolean" else text[:2_000]


class Messages(Prepared):
    """See the module."""

    name = "messages"
    chunk = 400
    virtual = True

    async def play(self, trial: Trial, folder: Path) -> None:
        """Let each message be said by one of the people."""
        async with opened(trial, folder, Streaming(echo)) as house:

            async def one(number: int) -> None:
                rng = trial.draw(number)
                text = self.drawn(rng)
                user = rng.choice(PEOPLE)
                key = f"say:{number}" if rng.random() < 0.9 else texts.short(rng)
                inbound = Inbound(
                    connector="direct",
                    sender=f"direct:{user}",
                    key=key,
                    text=text,
                    name=texts.short(rng) if rng.random() < 0.1 else "",
                    context=texts.text(rng) if rng.random() < 0.05 else "",
                    at_ms=rng.choice((0, 0, 0, -1, 2**62, 1)) if rng.random() < 0.1 else 0,
                    meta={texts.short(rng): texts.short(rng)} if rng.random() < 0.03 else {},
                )
                await said(house, trial, number, inbound)

            await at_once(trial.numbers, one)

    def drawn(self, rng: Random) -> str:
        """Return the text of one."""
        return texts.text(rng)

    def shown(self, rng: Random) -> str:
        """Return its text."""
        return self.drawn(rng)
