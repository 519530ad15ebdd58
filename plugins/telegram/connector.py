"""The connector: what the host asks of a bot. Everything goes through the governor, and only final answers may wait.

It exists as soon as there is a token; what is heavy is imported when it is first needed.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from daycare.base.connector import Attachment, BaseConnector, Capabilities, Identity, Outgoing
from daycare.base.errors import (
    AwayError,
    BusyError,
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from daycare.messenger.starting import ClientSlot
from daycare.plugin import PluginContext
from daycare_plugins.telegram.choices import Touch
from daycare_plugins.telegram.files import file_id_of
from daycare_plugins.telegram.known import Known, Newest
from daycare_plugins.telegram.rates import new_governor
from daycare_plugins.telegram.settings import BotSettings

if TYPE_CHECKING:
    from daycare_plugins.telegram.client import TelegramClient
    from daycare_plugins.telegram.outgoing import ChatTarget
    from daycare_plugins.telegram.rendering import Rendered

FLOOD: Final = "flood"  # the name under which cool-downs are remembered
TYPING_S: Final = 5.0  # for so long a chat shows what the bot does
SOFTER_MAX: Final = 5  # things that can be left out of a refused message
SOFTER_WAIT_S: Final = 5.0  # a refused message was none, so the same without something goes at once

_PRIVATE: Final = Capabilities(
    typing_s=TYPING_S,
    drafts=True,
    edits=True,
    withdrawals=True,
    reactions=True,
    choices=True,
    files=True,
    preview_every_s=1.0,
)
_GROUP: Final = replace(_PRIVATE, drafts=False, preview_every_s=3.0)  # 20 messages a minute, edits included


class TelegramConnector(BaseConnector):
    """One bot."""

    pull = False

    def __init__(self, context: PluginContext, name: str, settings: BotSettings, secret: str) -> None:
        self.name = name
        self.known = Known()
        self.who: Identity | None = None
        self._context = context
        self._settings = settings
        self._newest = Newest()
        self._slot: ClientSlot[TelegramClient] = ClientSlot(context, secret, f"calling Telegram for {name}")
        self._governor = new_governor()

    # == for the bot's task ============================================================================================

    async def open(self, client: "TelegramClient") -> None:
        """Send through this client from now on."""
        self._governor.restore(await self._context.recall(self.name, FLOOD), self._context.now_ms())
        self._slot.fill(client)

    def close(self) -> None:
        """There is no client any more."""
        self._slot.clear()
        self.who = None

    def heard(self, chat: int, message: str) -> None:
        """Take note of the newest message of a chat."""
        self._newest.heard(chat, message)

    async def notice(self, target: str, text: str) -> None:
        """Send a line to somebody, past the outbox."""
        outgoing = _outgoing()
        place = outgoing.place(target)
        words = outgoing.tail(text)
        if words is not None:
            await self._governor.acquire(place.chat, important=True)
            await self._call("sendMessage", place.chat, place.params | _said(words))

    async def answer_button(self, press: Touch) -> None:
        """Let a pressed button stop spinning, and those of a choice that was made go."""
        await self._slot.get().call("answerCallbackQuery", callback_query_id=press.id)
        if press.spent:
            await self._slot.get().call("editMessageReplyMarkup", chat_id=press.chat, message_id=press.message)

    # == answers =======================================================================================================

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """Return the reply in messages that Telegram takes."""
        long = self._settings.file_over_chars if self._settings.long_answers == "file" else None
        parts: list[Outgoing] = _outgoing().split(outgoing, long)
        return parts

    def delay_s(self, target: str) -> float:
        """Return how long the flood governor keeps a reply back, or before there can be a client."""
        if (starting_s := self._slot.delay_s()) > 0:
            return starting_s
        return self._governor.delay_s(_outgoing().place(target).chat, important=True)

    async def send(self, outgoing: Outgoing) -> str:
        """Send one part; return its number in the chat."""
        if outgoing.markup is None:  # it was not split
            receipts = [await self.send(part) for part in self.split(outgoing)]
            return receipts[0]
        module = _outgoing()
        place = module.place(outgoing.target)
        message = module.SendCall(outgoing, place, reply=self._is_reply(outgoing, place))
        self._slot.get()
        self._book(place.chat, important=True)
        for _ in range(SOFTER_MAX):
            try:
                sent = await self._call(message.method, place.chat, message.params)
                break
            except (InvalidError, NotFoundError) as error:
                if not message.softer(error.code):
                    raise
                self._context.log.info("telegram_sent_softer", connector=self.name, code=error.code)
            if self._governor.delay_s(place.chat, important=True) > SOFTER_WAIT_S:  # not the pace: a cool-down
                self._check(place.chat, important=True)
        for _ in range(message.messages - 1):  # so many does an album count for
            self._governor.take(place.chat, important=True)
        return self._receipt(place.chat, sent)

    def _is_reply(self, outgoing: Outgoing, place: "ChatTarget") -> bool:
        """In a private chat, what answers the newest message needs no reference to it."""
        return not place.private or not self._newest.is_newest(place.chat, outgoing.reply_to)

    def _receipt(self, chat: int, sent: Any) -> str:
        """Return the number of what was sent, of an album that of its first message."""
        messages = sent if isinstance(sent, list) else [sent]
        numbers = [message.get("message_id") for message in messages if isinstance(message, dict)]
        for number in numbers:
            if self.who is not None and isinstance(number, int):
                self.known.add(f"{self.who.id}:{chat}:m:{number}")
        return str(numbers[0] or "") if numbers else ""

    # == what may be left out ==========================================================================================

    def capabilities(self, target: str) -> Capabilities:
        """All that Telegram can do; drafts only in private chats."""
        return _PRIVATE if _outgoing().place(target).private else _GROUP

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Replace the text of a message; of what is too long for one, the end is shown. Its buttons go."""
        place, words = self._preview(target, text)
        if words is None:
            return
        self._book(place.chat, important=False)
        message = {"chat_id": place.chat, "message_id": _number(receipt)}
        try:
            try:
                await self._call("editMessageText", place.chat, message | _said(words))
            except InvalidError as error:
                if error.code != "NO_TEXT":
                    raise
                await self._call("editMessageCaption", place.chat, message | _outgoing().caption(text))
        except InvalidError as error:
            if error.code != "NOT_MODIFIED":
                raise

    async def withdraw(self, target: str, receipt: str) -> None:
        """Delete a message."""
        chat = _outgoing().place(target).chat
        try:
            await self._call("deleteMessage", chat, {"chat_id": chat, "message_id": _number(receipt)})
        except NotFoundError as error:
            if error.code != "MESSAGE_GONE":
                raise

    async def act(self, target: str, action: str) -> None:
        """Show for some seconds what the agent does."""
        place = _outgoing().place(target)
        self._must_wait(self._governor.frozen_s(place.chat))  # it is no message: only a refusal holds it back
        await self._call("sendChatAction", place.chat, place.params | {"action": action})

    async def draft(self, target: str, number: int, text: str) -> None:
        """Show the end of a growing answer, with a button that stops it. The number is that of the turn."""
        place, words = self._preview(target, text)
        if words is None:
            return
        if not place.private:
            raise self._cannot("draft")
        self._book(place.chat, important=False)
        params = place.params | {"draft_id": number, "text": words.text, "entities": list(words.entities)}
        params["can_stop"] = True
        await self._call("sendMessageDraft", place.chat, params)

    async def status(self, target: str, text: str) -> str:
        """Send a line without a sound."""
        place, words = self._preview(target, text)
        if words is None:
            raise InvalidError("MESSAGE_EMPTY", "sending a status line: there is nothing to see in it")
        self._book(place.chat, important=False)
        params = place.params | _said(words) | {"disable_notification": True}
        return self._receipt(place.chat, await self._call("sendMessage", place.chat, params))

    async def react(self, target: str, message: str, emoji: str) -> None:
        """Put an emoji to a message, or take it away."""
        chat = _outgoing().place(target).chat
        self._must_wait(self._governor.frozen_s(chat))
        reaction = [{"type": "emoji", "emoji": emoji}] if emoji else []
        params = {"chat_id": chat, "message_id": _number(message), "reaction": reaction}
        await self._call("setMessageReaction", chat, params)

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Return a file's bytes; while the bot starts, wait for it: a turn that goes on after a restart needs them."""
        client = await self._slot.wait()
        return await client.download(file_id_of(reference), max_bytes)

    def identity(self) -> Identity | None:
        """Return the bot's id and @name."""
        return self.who

    def _preview(self, target: str, text: str) -> "tuple[ChatTarget, Rendered | None]":
        outgoing = _outgoing()
        return outgoing.place(target), outgoing.tail(text)

    # == calls =========================================================================================================

    def _check(self, chat: int, *, important: bool) -> None:
        self._must_wait(self._governor.delay_s(chat, important=important))

    def _must_wait(self, wait_s: float) -> None:
        if wait_s > 0:
            raise BusyError(
                "TELEGRAM_PACE", f"calling Telegram: the next may go in {wait_s:.1f} s", retry_after_s=wait_s
            )

    def _book(self, chat: int, *, important: bool) -> None:
        """Book a call that goes out now. Who asked for the delay and waited may still find others before them."""
        self._check(chat, important=important)
        self._governor.take(chat, important=important)

    async def _call(self, method: str, chat: int, params: dict[str, Any]) -> Any:
        try:
            return await self._slot.get().call(method, **_with_files(params))
        except BusyError as flood:
            self._governor.freeze(chat, flood.retry_after_s or 1.0)
            await self._keep_flood()
            raise
        except ForbiddenError as error:
            if error.code != "TELEGRAM_TOKEN":
                raise
            raise AwayError("NOT_SENT", error.message, hint=error.hint) from error  # until there is another token
        except ConflictError as error:
            new = getattr(error, "new_chat_id", None)
            if not isinstance(new, int):
                raise
            await self._context.moved(self.name, f"{self.name}:{chat}", f"{self.name}:{new}")
            moved = f"{error.message}: what was for the old one goes to the new one"
            raise BusyError("CHAT_MIGRATED", moved, retry_after_s=0.0) from error

    async def _keep_flood(self) -> None:
        """A cool-down outlives a restart. If it cannot be kept, the next 429 tells it again."""
        try:
            await self._context.remember(self.name, FLOOD, self._governor.frozen_until(self._context.now_ms()))
        except DaycareError as error:
            self._context.log.warning("telegram_flood_not_kept", connector=self.name, reason=error.message)


def _outgoing() -> ModuleType:
    """Return the module that renders, which is too heavy to be imported before there is anything to send."""
    from daycare_plugins.telegram import outgoing

    return outgoing


def _with_files(params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with files as the library takes them; it is imported by then."""
    files = {name: value for name, value in params.items() if isinstance(value, Attachment)}
    if not files:
        return params
    from telegram import InputFile

    return params | {name: InputFile(file.data, filename=file.name, attach=False) for name, file in files.items()}


def _said(words: "Rendered") -> dict[str, Any]:
    said: dict[str, Any] = {"text": words.text, "link_preview_options": {"is_disabled": True}}
    return said | ({"entities": list(words.entities)} if words.entities else {})


def _number(receipt: str) -> int:
    if not receipt.isdecimal():
        raise NotFoundError("MESSAGE_GONE", f"finding the message {receipt!r}: it is not a number of one")
    return int(receipt)
