"""The fake Telegram from outside: a control endpoint for tests in other processes, and a chat for a human."""

import argparse
import sys
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

import msgspec
import trio

from daycare.testing.http_server import HttpRequest, RefusedError
from daycare_plugins.telegram.testing.faults import TelegramFault, Troubles
from daycare_plugins.telegram.testing.limits import FloodLimits
from daycare_plugins.telegram.testing.world import FakeMessage

PATH: Final = "/control/"
_DEEDS: Final = (
    *("person", "group", "say", "photo", "document", "voice", "sticker", "location", "contact", "poll"),
    *("membership", "migrate", "topic", "close_topic", "raw_update", "redeliver", "no_more_faults"),
)
_HELP: Final = """Write as a person; lines with "!" are orders: !press DATA, !edit TEXT, !file PATH, !block, !quit
"""


def answer(world: Troubles, request: HttpRequest) -> tuple[int, bytes]:
    """Answer `POST /control/<verb>`: the status and the body."""
    verb = request.path.removeprefix(PATH)
    try:
        wanted = msgspec.json.decode(request.body or b"{}", type=dict[str, Any])
        return 200, msgspec.json.encode(_do(world, verb, wanted))
    except (LookupError, TypeError, ValueError, RefusedError, msgspec.DecodeError) as error:
        return 400, msgspec.json.encode({"error": f"{type(error).__name__}: {error}"})


def _do(world: Troubles, verb: str, wanted: dict[str, Any]) -> Any:
    if verb in _DEEDS:
        if "content" in wanted:
            wanted["content"] = b64decode(wanted["content"])
        deed: Callable[..., Any] = getattr(world, verb)
        if verb == "raw_update":
            return deed(b64decode(wanted["raw"]) if "raw" in wanted else wanted["update"])
        done = deed(**wanted)
        return shown(done) if isinstance(done, FakeMessage) else {"id": done.id} if hasattr(done, "id") else done
    if verb in ("edit", "press", "react"):
        message = world.chats[wanted.pop("chat")].messages[wanted.pop("message")]
        if verb == "react":
            return world.react(message, wanted["person"], *wanted.get("emoji", ()))
        return shown(world.edit(message, **wanted)) if verb == "edit" else world.press(message, **wanted)
    if verb == "fault":
        where = {name: wanted.pop(name) for name in ("times", "chat") if name in wanted}
        if "raw" in wanted:
            wanted["raw"] = b64decode(wanted["raw"])
        method = wanted.pop("method")
        return world.fault(method, TelegramFault(**wanted), **where)
    if verb == "set":
        for name in wanted:
            if name not in ("away", "stalled", "next_update_id", "privacy", "limits"):
                raise LookupError(f"nothing to set is called {name!r}")
        for name, value in wanted.items():
            setattr(world, name, FloodLimits(**value) if name == "limits" and value else value)
        return None
    if verb == "messages":
        return [shown(message) for message in world.messages(wanted["chat"])[wanted.get("after", 0) :]]
    if verb == "calls":
        return [msgspec.to_builtins(call) for call in list(world.calls)[wanted.get("after", 0) :]]
    if verb == "state":
        return _state(world)
    raise LookupError(f"no verb {verb!r}")


def shown(message: FakeMessage) -> dict[str, Any]:
    """Return all that is known of a message."""
    fields: dict[str, Any] = msgspec.to_builtins(message)
    return fields | {"id": message.id, "text": message.text, "kind": message.kind}


def _state(world: Troubles) -> dict[str, Any]:
    return {
        "confirmed": world.confirmed,
        "waiting": len(world.queue),
        "next_update_id": world.next_update_id,
        "impatient": [msgspec.to_builtins(call) for call in world.impatient],
        "sent": {str(number): len(world.sent(number)) for number in world.chats},
        "drafts": len(world.drafts),
        "actions": len(world.actions),
        "reactions": [msgspec.to_builtins(reaction) for reaction in world.reactions],
        "commands": world.commands,
        "answered_callbacks": [msgspec.to_builtins(callback) for callback in world.answered_callbacks],
        "away": world.away,
        "stalled": world.stalled,
    }


# -- by hand ---------------------------------------------------------------------------------------------------------


def options(token: str) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description="A Telegram Bot API server for trying bots by hand, and for tests.")
    parser.add_argument("--port", type=int, default=8081, help="port on 127.0.0.1; 0 for a free one")
    parser.add_argument("--token", default=token, help="the bot's token")
    parser.add_argument("--control", action="store_true", help="serve POST /control/<verb>")
    parser.add_argument("--chat", action="store_true", help="chat with the bot: lines of the input are messages")
    return parser.parse_args()


async def chat(world: Troubles) -> None:
    """Let a human be a person: lines of the standard input are messages, and what the bot does is printed."""
    ann = world.person(1, first_name="Ann", username="ann")
    world.on_sent.append(_print_message)
    _write(_HELP)
    mine: FakeMessage | None = None
    while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        text = line.rstrip("\n")
        order, _, rest = text.partition(" ")
        if order == "!quit":
            return
        try:
            if order == "!press":
                pressed = [message for message in world.sent(ann.id) if message.keyboard]
                world.press(pressed[-1], rest)
            elif order == "!edit" and mine is not None:
                world.edit(mine, rest)
            elif order == "!file":
                content = await trio.Path(rest).read_bytes()
                mine = world.document(ann, ann, content, rest.rpartition("/")[2])
            elif order == "!block":
                world.membership(ann, "kicked")
            elif text:
                mine = world.say(ann, ann, text)
        except (LookupError, ValueError, OSError) as error:
            _write(f"! {error}\n")


def _print_message(message: FakeMessage) -> None:
    mark = "~" if message.edits else "<"
    kind = "" if message.kind == "text" else f"[{message.kind}] "
    lines = message.text.replace("\n", "\n  ")
    buttons = "".join(
        f"\n  [{button['text']}] {button.get('callback_data', '')}" for row in message.keyboard for button in row
    )
    _write(f"{mark} {kind}{lines}{buttons}\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
