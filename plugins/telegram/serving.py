"""Serving one bot with one token: the client, the lock, and the way in. Importing this brings in all that is heavy."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import httpx
import trio

from daycare.base.connector import Identity
from daycare.base.errors import ConflictError
from daycare.plugin import PluginContext
from daycare_plugins.telegram import lock, menu
from daycare_plugins.telegram.client import TelegramClient
from daycare_plugins.telegram.connector import TelegramConnector
from daycare_plugins.telegram.health import Monitor
from daycare_plugins.telegram.intake import TelegramIntake
from daycare_plugins.telegram.overheard import Overheard
from daycare_plugins.telegram.polling import Polling
from daycare_plugins.telegram.reading import Bot, ReadingRules
from daycare_plugins.telegram.settings import BotSettings
from daycare_plugins.telegram.webhook import Webhook, address_of


class TelegramServing:
    """One bot with one token."""

    def __init__(
        self,
        context: PluginContext,
        settings: BotSettings,
        connector: TelegramConnector,
        monitor: Monitor,
        client: TelegramClient,
        deaf: Callable[[], str],
    ) -> None:
        self._context = context
        self._settings = settings
        self._connector = connector
        self._monitor = monitor
        self._client = client
        self._deaf = deaf
        self._known_who = trio.Event()
        rules = ReadingRules(
            connector=connector.name,
            group_answers=settings.groups,
            overrides={int(chat): answers for chat, answers in settings.group_overrides.items()},
        )
        self._intake = TelegramIntake(context, rules, connector.known, connector, Overheard(settings.group_context))

    async def run(self, bot: str, token: str) -> None:
        """Receive and send until cancelled; `bot` names it for the lock."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._intake.run)
            nursery.start_soon(self._menu)
            while True:
                with ExitStack() as held:
                    try:
                        held.enter_context(lock.locked(bot, self._owner()))
                    except ConflictError as error:
                        await trio.sleep(self._monitor.trouble(error))
                        continue
                    except OSError as error:  # others are then found by their polls only
                        self._context.log.warning("telegram_not_locked", connector=self._connector.name, why=str(error))
                    await self._way(token).run()

    def _owner(self) -> str:
        return f"process {os.getpid()}, home {self._context.data.parent.parent}"

    def _way(self, token: str) -> Polling | Webhook:
        if self._settings.webhook_url:
            return Webhook(
                self._client,
                self._intake,
                self._monitor,
                address=address_of(token, self._settings.webhook_url),
                taking=partial(self._context.taking, self._connector.name),
                deaf=self._deaf,
                prepare=self._learn_who,
                now_ms=self._context.now_ms,
            )
        return Polling(
            self._client,
            self._intake,
            self._monitor,
            poll_s=self._settings.poll_s,
            prepare=self._for_polling,
            now_ms=self._context.now_ms,
        )

    async def _for_polling(self) -> str:
        await self._learn_who()
        await self._client.call("deleteWebhook", drop_pending_updates=False)
        return await self._context.recall(self._connector.name)

    async def _learn_who(self) -> None:
        number, username = await self._client.identity()
        self._intake.bot = Bot(id=number, username=username)
        self._connector.who = Identity(id=str(number), name=f"@{username}")
        self._monitor.identity = f"@{username}"
        self._known_who.set()

    async def _menu(self) -> None:
        await self._known_who.wait()
        await menu.sync(self._context, self._client, self._connector.name)


async def serve(
    context: PluginContext,
    settings: BotSettings,
    connector: TelegramConnector,
    monitor: Monitor,
    token: str,
    transport: Callable[[], httpx.AsyncBaseTransport] | None,
    deaf: Callable[[], str] = str,
) -> None:
    """Serve a bot until cancelled; `deaf` is why its webhook cannot be reached here, empty if it can."""
    make = partial(
        TelegramClient,
        token,
        base_url=settings.bot_url,
        base_file_url=settings.file_url,
        local_mode=settings.local_mode,
        transport=transport,
    )
    made = await trio.to_thread.run_sync(make)  # it imports what connects, and reads whose certificates are trusted
    async with made as client:
        await connector.open(client)
        try:
            await TelegramServing(context, settings, connector, monitor, client, deaf).run(
                f"{settings.bot_url}|{token.split(':')[0]}", token
            )
        finally:
            connector.close()
