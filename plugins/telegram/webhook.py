"""Webhook mode: Telegram posts updates to us. What is promised is the same as with polling.

A request is answered 200 only when its update is committed; anything else makes Telegram send it again. The secret that
it has to show is made of the bot's token and told to Telegram over the API alone, so nobody has to keep it, and each
node knows it: any of them lets Telegram in, and the one that is connected takes what comes. Telegram sends one chat's
updates one after another, so the parts of an album come apart unless they come at the same time.
"""

import base64
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
import trio

from daycare.base.errors import ConflictError, DaycareError, UnavailableError
from daycare.base.secrecy import hide
from daycare.messenger.door import WayIn
from daycare.messenger.keeping import Connection
from daycare.plugin import PluginContext
from daycare_plugins.telegram import albums, health
from daycare_plugins.telegram.client import TelegramClient
from daycare_plugins.telegram.http_in import BOUNDS, Take, TelegramHook
from daycare_plugins.telegram.intake import TelegramIntake
from daycare_plugins.telegram.reading import UPDATES
from daycare_plugins.telegram.settings import BotSettings

CONNECTIONS: Final = 20  # that Telegram may use at the same time
LOOK_S: Final = 30.0  # between two looks at how Telegram finds us
AGAIN_MAX_S: Final = 30.0  # after trouble, so that a recovery is seen within 45 s
COMMIT_S: Final = 30.0  # for an update to be committed; Telegram itself waits for 60 s
QUIET_S: Final = 0.5  # in which an album has not grown
BATCH_MAX: Final = 100


class WebhookAddress(NamedTuple):
    """Where Telegram is to post, and what it has to show there."""

    url: str
    secret: str


class _Waiting:
    """An update whose request waits for it to be committed."""

    def __init__(self, update: dict[str, Any]) -> None:
        self.update = update
        self.done = trio.Event()
        self.error: DaycareError | None = None


class Webhook:
    """Receives for one bot, until cancelled; `taking` has what is let in taken, `deaf` is why nothing comes in here."""

    def __init__(
        self,
        client: TelegramClient,
        intake: TelegramIntake,
        monitor: health.Monitor,
        *,
        address: WebhookAddress,
        taking: Callable[[Take], AbstractContextManager[None]],
        deaf: Callable[[], str],
        prepare: Callable[[], Awaitable[None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._intake = intake
        self._monitor = monitor
        self._url, self._secret = address
        self._taking = taking
        self._deaf = deaf
        self._prepare = prepare
        self._prepared = trio.Event()  # who we are is known: before that no update can be read
        self._now_ms = now_ms
        self._waiting: list[_Waiting] = []
        self._news = trio.Event()
        self._set = False
        self._received_ms = 0

    async def run(self) -> None:
        """Receive. Whatever happens to the connection or the store, it goes on."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            await self._prepared.wait()
            with self._taking(self._posted):
                await self._commit()

    # -- updates -----------------------------------------------------------------------------------------------------

    async def _posted(self, body: bytes) -> None:
        """Return when an update is committed."""
        waiting = _Waiting(_decoded(body))
        self._waiting.append(waiting)
        self._news.set()
        try:
            with trio.fail_after(COMMIT_S):
                await waiting.done.wait()
        except trio.TooSlowError:
            raise UnavailableError("TELEGRAM_LATE", "committing an update took too long") from None
        if waiting.error is not None:
            raise waiting.error

    async def _commit(self) -> None:
        while True:
            await self._news.wait()
            await self._albums()
            batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
            if not self._waiting:
                self._news = trio.Event()
            error: DaycareError | None = None
            try:
                await self._intake.take([one.update for one in batch], self._cursor(batch))
            except DaycareError as problem:
                error = problem
                self._monitor.trouble(problem)  # Telegram comes again by itself
            else:
                self._received_ms = self._now_ms()
                self._monitor.up()
            for one in batch:
                one.error = error
                one.done.set()

    async def _albums(self) -> None:
        for _ in range(albums.ROUNDS_MAX):
            parts = albums.growing([one.update for one in self._waiting])
            if not parts:
                return
            await trio.sleep(QUIET_S)
            if albums.growing([one.update for one in self._waiting]) == parts:
                return

    def _cursor(self, batch: Sequence[_Waiting]) -> str:
        ids = [number for one in batch if isinstance(number := one.update.get("update_id"), int)]
        return msgspec.json.encode({"offset": ids[-1] + 1 if ids else 0, "at": self._now_ms()}).decode()

    # -- how Telegram finds us ---------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            try:
                await self._look()
                wait_s = LOOK_S
            except DaycareError as error:
                wait_s = min(self._monitor.trouble(error), AGAIN_MAX_S)
            await trio.sleep(wait_s)

    async def _look(self) -> None:
        if not self._set:
            await self._prepare()
            self._prepared.set()
            await self._client.call(
                "setWebhook",
                url=self._url,
                secret_token=self._secret,
                allowed_updates=list(UPDATES),
                max_connections=CONNECTIONS,
            )
            self._set = True
        info = await self._client.call("getWebhookInfo")
        info = info if isinstance(info, Mapping) else {}
        if info.get("url") != self._url:
            self._set = False
            raise ConflictError("TELEGRAM_WEBHOOK_LOST", "the webhook was set to another address, or removed")
        if deaf := self._deaf():
            raise UnavailableError("TELEGRAM_LISTEN", deaf, hint="choose another webhook_listen")
        pending, failed_s = info.get("pending_update_count") or 0, info.get("last_error_date") or 0
        if pending and failed_s * 1000 > self._received_ms:
            raise UnavailableError(
                "TELEGRAM_WEBHOOK_FAILS",
                f"receiving by webhook: Telegram could not deliver {pending} updates: "
                f"{' '.join(str(info.get('last_error_message')).split())[:200]}",
                hint="is the address that Telegram calls reachable, with a certificate that it trusts?",
            )
        self._monitor.up()


def address_of(token: str, url: str) -> WebhookAddress:
    """Return the address of the bot with this token, the same on each node."""
    made = base64.urlsafe_b64encode(hmac.digest(token.encode(), f"daycare webhook {url}".encode(), "sha256")).decode()
    secret = made.rstrip("=")
    hide(secret)
    return WebhookAddress(url, secret)


def way_in(context: PluginContext, connection: Connection, name: str, settings: BotSettings) -> WayIn:
    """Return what lets Telegram in."""
    url = settings.webhook_url
    path = urlsplit(url).path or "/"

    def hook(token: str) -> TelegramHook:
        return TelegramHook(path, address_of(token, url).secret, partial(context.hand_on, name))

    return WayIn(context, connection, name, settings.webhook_listen, hook, BOUNDS)


def _decoded(body: bytes) -> dict[str, Any]:
    """Return an update; what is none is left to be parked, because refusing it would bring it again for ever."""
    try:
        found = json.loads(body)  # also takes halves of surrogate pairs, as polling does
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"undecodable": body.decode("utf-8", "replace")}
