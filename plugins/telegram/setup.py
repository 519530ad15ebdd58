"""Telegram's step in `daycare init`: the token, tried by getMe."""

from collections.abc import Sequence
from typing import Final

from daycare.plugin import Secret, SetupQuestion, SetupStep, Verified
from daycare_plugins.telegram.settings import BotSettings, TelegramSettings

NAME: Final = "telegram"


def bots(settings: TelegramSettings) -> dict[str, tuple[str, BotSettings]]:
    """Return the name of each bot's connector with that of its token and its settings."""
    named: dict[str, tuple[str, BotSettings]] = {NAME: (NAME, settings)}
    return named | {f"{NAME}-{bot}": (f"{NAME}.{bot}", own) for bot, own in settings.bots.items()}


def in_use(settings: TelegramSettings, secret: Secret) -> Sequence[str]:
    """Return the bots that have a token."""
    return [name for name, (token, _) in bots(settings).items() if secret(token)]


async def check(connector: str, settings: TelegramSettings, secret: Secret) -> Verified:
    """Ask Telegram who a bot is; nothing is received or changed by that."""
    from daycare_plugins.telegram.client import TelegramClient  # half a second

    token, own = bots(settings)[connector]
    made = TelegramClient((secret(token) or "").strip(), base_url=own.bot_url, base_file_url=own.file_url)
    async with made as client:
        _, username = await client.identity()
    return Verified(identity=f"@{username}", contact=f"write to @{username} in Telegram (https://t.me/{username})")


STEP: Final = SetupStep(
    title="Telegram",
    about="@BotFather in Telegram makes a bot and gives you its token: /newbot",
    connector=NAME,
    connectors=in_use,
    questions=(
        SetupQuestion(name=NAME, prompt="Token of the bot", kind="secret"),
        SetupQuestion(name="base_url", prompt="Address of the Bot API server", optional=True, asked=False),
    ),
    check=check,
)
