"""Answers on their way to readers: the marks of WhatsApp and its Cloud API, of Telegram, and of the terminal."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import trio

from daycare.agent.sending import SPLIT_INLINE_MAX_CHARS
from daycare.api.client import StreamEvent
from daycare.base.errors import DaycareError
from daycare.cli.chat_screen import Screen
from daycare.cli.render import one_line, plain, table, visible
from daycare.messenger import markup
from daycare.plugin import Outgoing
from daycare_plugins.bridge import parts
from daycare_plugins.telegram import outgoing as telegram
from tests.hostile import texts
from tests.hostile.stage import at_once
from tests.hostile.trial import Prepared, Trial


class Rendering(Prepared):
    """See the module. What is too long for the loop is rendered in a thread by the daemon, and not drawn here."""

    name = "rendering"
    chunk = 500
    virtual = True

    async def play(self, trial: Trial, folder: Path) -> None:
        """Render each in all ways, each a step of its own; whatever one raises is harm."""

        async def one(number: int) -> None:
            text = self.drawn(trial.draw(number))
            reply = Outgoing(outbox=1, key="a:1", path="/ann/x", user="ann", target="5", text=text)
            trial.end(number, "answered")
            for render in (_telegram, _previewed, _bridged, _cloud, _terminal):
                try:
                    for _ in render(reply):
                        await trio.lowlevel.checkpoint()
                except DaycareError:
                    trial.end(number, "refused")  # such as a reply in which there is nothing to see
                except Exception as error:  # noqa: BLE001 -- whatever it is, it is what the campaign looks for
                    trial.harm("raised", f"{render.__name__}: {type(error).__name__}: {error}", number)

        await at_once(trial.numbers, one, limit=1)

    def drawn(self, rng: Random) -> str:
        """Return the text of one: whole characters, as replies are."""
        return texts.text(rng, lone=False)[:SPLIT_INLINE_MAX_CHARS]

    def shown(self, rng: Random) -> str:
        """Return its text."""
        return self.drawn(rng)


def _telegram(reply: Outgoing) -> Iterator[None]:
    for part in telegram.split(reply, None):
        telegram.SendCall(part, telegram.place(reply.target), reply=False)
        yield
    yield


def _previewed(reply: Outgoing) -> Iterator[None]:
    if telegram.tail(reply.text) is not None:
        yield
        telegram.caption(reply.text)
    yield


def _bridged(reply: Outgoing) -> Iterator[None]:
    for part in parts.split(reply, 4_000):
        yield
        markup.render(part.text, 1 << 30)


def _cloud(reply: Outgoing) -> Iterator[None]:
    markup.render(reply.text, 4_096)
    yield


def _terminal(reply: Outgoing) -> Iterator[None]:
    screen = Screen("/ann/direct", color=True, width=80, write=lambda text: None)
    for start in range(0, len(reply.text), 500):
        screen.show_event(_event("turn.delta", text=reply.text[start : start + 500]))
    screen.show_event(_event("turn.finished", reply=reply.text, seqs=[1]))
    screen.show_replies([{"seq": 5, "text": reply.text, "turn": 1, "created_at": 0}])
    yield
    plain(reply.text), visible(reply.text), one_line(reply.text)
    table(["a", "b#"], [[reply.text[:3_000], 1]])


def _event(name: str, **fields: object) -> StreamEvent:
    return StreamEvent(name, {"event": name, "at_ms": 0, "path": "/ann/direct", "turn": 1, **fields})
