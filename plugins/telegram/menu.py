"""The menu of commands that people see behind the `/` button, kept the same as what the daemon understands."""

import re
from collections.abc import Sequence
from typing import Final

import trio

from daycare.base.errors import DaycareError
from daycare.plugin import PluginContext
from daycare_plugins.telegram.client import TelegramClient

COMMANDS_MAX: Final = 100
HELP_MAX_CHARS: Final = 256
TRIES: Final = 3
AGAIN_S: Final = 60.0
_NAME: Final = re.compile(r"[a-z0-9_]{1,32}")


def entries(commands: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Return what Telegram can show of these commands: (word, help)."""
    found = {}
    for word, help_ in commands:
        name, told = word.removeprefix("/").lower(), " ".join(help_.split())
        if _NAME.fullmatch(name):
            found[name] = (told or name)[:HELP_MAX_CHARS]
    return [{"command": name, "description": told} for name, told in found.items()][:COMMANDS_MAX]


async def sync(context: PluginContext, client: TelegramClient, name: str) -> None:
    """Set the menu where it differs. A menu that cannot be set is worth a line in the log, nothing more."""
    wanted = entries(context.commands())
    for again in range(TRIES):
        try:
            if await client.call("getMyCommands") != wanted:
                await client.call("setMyCommands", commands=wanted)
            return
        except DaycareError as error:
            context.log.warning("telegram_menu_failed", connector=name, code=error.code, reason=error.message)
            if again + 1 < TRIES:
                await trio.sleep(error.retry_after_s or AGAIN_S)
