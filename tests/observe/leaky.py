"""A plugin that says its secrets, and those it finds in files, wherever a plugin can say anything."""

import logging
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import trio

from daycare.base.connector import BaseConnector, Pairing
from daycare.base.errors import InvalidError
from daycare.base.messages import Choice
from daycare.base.tool import STAYS
from daycare.plugin import (
    Attachment,
    ChatCommand,
    Health,
    HookSet,
    Identity,
    Inbound,
    Outgoing,
    Plugin,
    PluginContext,
    StructTool,
    ToolContext,
    Unreadable,
)
from tests.observe.encodings import shown

_OWN = ("password", "pem", "webhook", "verify", "app", "session", "hex", "jwt")


class Leaking(BaseConnector):
    """A connector that says its secrets for all that it is asked for."""

    name = "leaky"

    async def send(self, outgoing: Outgoing) -> str:
        return "receipt " + _secrets[0]

    def identity(self) -> Identity:
        return Identity(id=_secrets[0], name=" ".join(said(_secrets)[:3]))

    async def pair(self, phone: str) -> Pairing:
        return self.pairing()

    def pairing(self) -> Pairing:
        text = "LEAK pairing " + " ".join(said(_secrets))
        return Pairing(state="pairing", qr=text, code=text, reason=text, hint=text, identity=text)

    async def unpair(self) -> None:
        _crash("unpair")


async def connected(context: PluginContext) -> None:
    """Hand in what holds secrets in every place that is not a name."""
    text = "LEAK connector " + " ".join(said(_secrets))
    file = Attachment(name="leak.txt", media_type="text/plain", data=text.encode())
    items: list[Inbound | Unreadable] = [Unreadable(key="leak-1", reason=text, body=text)]
    items += [
        Unreadable(key=f"leak-body-{number}", reason="x", body=part) for number, part in enumerate(said(_secrets))
    ]
    for number, sender in enumerate(("leaky:5", "leaky:stranger", "leaky:" + _secrets[0])):
        items.append(
            Inbound(
                connector="leaky", sender=sender, key=f"leak-{sender[:9]}-{number}", text=text, name=text, context=text,
                files=(file,),
            )
        )  # fmt: skip
    for item in items:
        await context.receive("leaky", [item])
    context.report("leaky", Health(state="away", reason=text, hint=text, identity=text, alert=True))


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Say secrets."""


def known(context: PluginContext) -> list[str]:
    """Return its own secrets, and what stands in files of others."""
    found = [context.secret("leaky"), *(context.secret(f"leaky.{name}") for name in _OWN)]
    for file in os.environ.get("LEAKED_FILES", "").split(":"):
        found += Path(file).read_text().splitlines()
    return [secret for secret in found if secret]


def said(secrets: list[str]) -> list[str]:
    return [f"LEAK {name} {text} LEAK" for secret in secrets for name, text in shown(secret)]


_secrets: list[str] = []


def _crash(where: str) -> NoReturn:
    error = RuntimeError(f"{where}: " + " | ".join(said(_secrets)))
    error.add_note("a note: " + " ".join(_secrets))
    raise error


async def start(context: PluginContext) -> None:
    """Log, print, warn and die with secrets."""
    _secrets[:] = known(context)
    for text in said(_secrets):
        context.log.info(text, more=text, deep={"list": [text, (text,)]}, raw=text.encode())
        context.log.warning("key", **{text: 1})
    library = logging.getLogger("some.library")
    library.error("LEAK library %s", " ".join(_secrets))
    try:
        _crash("library")
    except RuntimeError:
        library.exception("LEAK trace")
        library.warning("LEAK stack", stack_info=True)
    for text in said(_secrets)[::5]:
        print("LEAK stdout", text)
        print("LEAK stderr", text, file=sys.stderr)
    warnings.warn(f"LEAK warning {_secrets}", stacklevel=1)
    thread = threading.Thread(target=_crash, args=("thread",))
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    await connected(context)
    long = "x" * 1_990 + _secrets[0]  # a bound of 2,000 characters cuts it
    context.log.info("cut", text=long)
    _crash("start")


async def _health(context: PluginContext) -> str:
    return "LEAK health " + " ".join(said(_secrets)[:40])


async def _raises(context: ToolContext, arguments: Nothing) -> str:
    _crash("tool")


async def _refuses(context: ToolContext, arguments: Nothing) -> str:
    raise InvalidError("LEAK", " ".join(said(_secrets)), hint=" ".join(_secrets))


async def _tells(context: ToolContext, arguments: Nothing) -> str:
    print("LEAK tool", *_secrets)
    return "LEAK result " + " ".join(said(_secrets))


async def _effects(context: ToolContext, arguments: Nothing) -> str:
    text = "LEAK effect " + " ".join(said(_secrets))
    await context.send(context.path, text)
    context.remind(3_600, text)
    context.offer([Choice(label=text, says=text)])
    file = await context.write("leak.txt", "text/plain", text.encode())
    await context.attach(file.id)
    await context.spawn(text, prompt=text)
    return "LEAK effected"


async def _notes(context: ToolContext, arguments: Nothing) -> str:
    text = "LEAK note " + " ".join(_secrets)
    return await context.memory.change("write", "knowledge/leak.md", text, text)


async def _command(context: PluginContext, path: str, user: str, rest: str) -> str:
    if rest.strip() == "tell":
        return "LEAK command " + " ".join(_secrets)
    _crash("command")


async def _before(context: PluginContext, moment: Any) -> list[str]:
    return ["LEAK before " + " ".join(_secrets)]


async def _after(context: PluginContext, moment: Any) -> None:
    _crash("hook")


plugin = Plugin(
    name="leaky",
    tools=(
        StructTool("leak_raises", Nothing, _raises, idempotent=True, **STAYS),
        StructTool("leak_refuses", Nothing, _refuses, idempotent=True, **STAYS),
        StructTool("leak_effects", Nothing, _effects, idempotent=True, **STAYS),
        StructTool("leak_notes", Nothing, _notes, idempotent=True, **STAYS),
        StructTool("leak_tells", Nothing, _tells, idempotent=True, **STAYS),
    ),
    connectors={"leaky": Leaking},
    commands={"leak": ChatCommand("say secrets", _command)},
    hooks=HookSet(message_before=_before, message_after=_after),
    start=start,
    health=_health,
)
