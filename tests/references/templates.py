"""doc/use/templates.md: the first conversation with an agent of each template, as it happens in a daemon."""

import json
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import trio

from daycare.base.messages import Message, ToolCall, ToolResult
from daycare.features.agents.templates import AgentTemplate, names, template
from daycare.testing.clock import patient_clock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import call, say

PAGE: Final = Path(__file__).parents[2] / "doc" / "use" / "templates.md"
WORDS: Final = tomllib.loads(Path(__file__).with_name("first_words.toml").read_text())
_COLUMNS: Final = 116
_HEAD: Final = """\
# First conversations

What the first minute with an agent of each [template](paths.md#templates) is like, in an installation where nothing is
set up beside a model. The calls were made, and their results are real; the model's words were written for this page.
"""


@cache
def page() -> str:
    """Return the page."""
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(_page, Path(folder), clock=patient_clock())


async def _page(folder: Path) -> str:
    parts = [_HEAD]
    async with open_daemon(folder) as house:
        for of in map(template, names()):
            parts.append("\n".join(await _first(house, of, WORDS[of.name])))
    return "\n".join(parts)


async def _first(house: TestDaemon, of: AgentTemplate, words: dict[str, Any]) -> list[str]:
    path = f"/ann/agent/{of.name}"
    told = await house.talk(f"/agents new {of.name}")
    lacks = told.partition("what it does not have here: ")[2].partition(". /use")[0]
    calls = [call((each["tool"], each["arguments"])) for each in words.get("calls", ())]
    house.model.enqueue(*calls, say(words["says"].strip()))
    await house.talk(of.first, path=path)
    agent = await house.daemon.directory.at(path)
    lines = [f"## {of.name}", "", f"{(of.description or 'nothing in particular').capitalize()}."]
    lines += [f"It counts on {_code(lacks)}, which it does not have here."] if lacks else []
    lines += ["", "```", f"/agents new {of.name}", f"/use {of.name}", f"> {of.first}"]
    lines += list(_said(await house.store.turns.history(agent.id, agent.session, 50)))
    lines += ["```", ""]
    for job in of.jobs:
        lines += [f"It can begin by itself: at `{job.when}` it would be told “{job.text}”", ""]
    return lines


def _said(history: list[Message]) -> Iterator[str]:
    for part in (part for message in history[1:] for part in message.parts):
        if isinstance(part, ToolCall):
            yield from _wrapped(f"  · {part.name} {json.dumps(part.arguments, ensure_ascii=False)}")
        elif isinstance(part, ToolResult):
            assert part.status == "ok", part
            yield from _wrapped(f"    {part.text.splitlines()[0]}")
        else:
            yield from _wrapped(getattr(part, "text", ""))


def _wrapped(text: str) -> list[str]:
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(text, _COLUMNS, subsequent_indent=f"{indent}  " if indent else "", break_on_hyphens=False)


def _code(listed: str) -> str:
    return ", ".join(f"`{each}`" for each in listed.split(", "))
