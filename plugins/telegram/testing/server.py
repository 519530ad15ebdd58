"""A Telegram Bot API server over a real socket: strict, with people who write to the bot, and faults on order.

    async with FakeTelegram.serve() as server:
        ann = server.person(5, first_name="Ann")
        server.say(ann, ann, "hi")
        ...  # a bot with base_url=server.base_url, base_file_url=server.base_file_url, token=server.token
        assert server.sent(5)[0].text == "hello"
        server.fault("sendMessage", lost())

It is written from Telegram's published pages and refuses what the real server refuses, with its words. By hand:
`python -m daycare_plugins.telegram.testing.server --port 8081 --chat`.
"""

import re
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import httpx
import msgspec
import trio

from daycare.testing.http_server import HttpRequest, HttpServer, Params, RefusedError, ServerConnection
from daycare_plugins.telegram.testing import control as remote
from daycare_plugins.telegram.testing.faults import (
    DOWNLOAD,
    METHODS,
    TelegramFault,
    Troubles,
    bad_gateway,
    flood,
    garbage,
    lost,
    refused,
)
from daycare_plugins.telegram.testing.limits import EVERYWHERE, FloodLimits
from daycare_plugins.telegram.testing.methods import IN_CHATS, OF_THE_BOT, allow, chat_of
from daycare_plugins.telegram.testing.updates import WEBHOOK_ACTIVE, Update, bounded
from daycare_plugins.telegram.testing.world import TOKEN, BotCall, FakeChat, FakeMessage, FakePerson

__all__ = [
    "TOKEN",
    "BotCall",
    "FakeChat",
    "FakeMessage",
    "FakePerson",
    "FakeTelegram",
    "FloodLimits",
    "Moment",
    "TelegramFault",
    "bad_gateway",
    "flood",
    "garbage",
    "lost",
    "refused",
]

_WEBHOOK_S: Final = 60.0
_JSON: Final = {"Content-Type": "application/json"}
_TOKEN: Final = re.compile(r"(?!.{81})[1-9]\d*:.*")

_Answer = tuple[int, bytes, dict[str, str]]
Moment = Literal["arrived", "executed", "answered"]


class FakeTelegram(Troubles, HttpServer):
    """The server; see `FakePeople` for what people do, `TelegramWorld` for what the bot did, `Troubles` for what fails.

    `on_call` is called at each moment of a call. With `control` the requests `POST /control/<verb>` do what tests in
    other processes want.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        token: str = TOKEN,
        username: str = "fake_bot",
        clock: Callable[[], float] = time.time,
        control: bool = False,
    ) -> None:
        Troubles.__init__(self, token, username, clock)
        HttpServer.__init__(self, port)
        self.base_url = f"{self.origin}/bot"
        self.base_file_url = f"{self.origin}/file/bot"
        self.on_call: list[Callable[[BotCall, Moment], None]] = []
        self._control = control

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Serve one connection over any stream until it ends, or an outage begins."""
        with trio.CancelScope() as scope:
            self._open.add(scope)
            try:
                await super().serve_stream(stream)
            finally:
                self._open.discard(scope)

    # -- calls -------------------------------------------------------------------------------------------------------

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        if self._control and request.path.startswith(remote.PATH):
            with trio.CancelScope(shield=True):  # what orders an outage gets its answer
                return await connection.answer(*remote.answer(self, request), _JSON)
        if self.away:
            return False
        call = BotCall(method="?", params={}, at=trio.current_time())
        fault: TelegramFault | None = None
        stalls = self.stalls
        answer: _Answer | None
        try:
            call.method, params = self._route(request)
            call.params = params.values | params.uploads
            call.chat_id = _number(params.text("chat_id"))
            self.calls.append(call)
            self._tell_of(call, "arrived")
            if self.stalled:
                return await self._never(connection)
            fault = self.next_fault(call.method, call.chat_id)
            if fault is not None and not await self._before(connection, call, fault):
                return False
            answer = await self._execute(connection, call, params)
        except RefusedError as refusal:
            late = refusal.parameters.get("retry_after")
            answer = refusal.status, _refusal(refusal), _JSON | ({"Retry-After": str(late)} if late else {})
            call.description = refusal.description
        if answer is None:
            return False
        if self.stalls != stalls:
            return await self._never(connection)
        call.status = answer[0]
        self._tell_of(call, "executed")
        goes_on = await self._after(connection, answer, fault)
        self._tell_of(call, "answered")
        return goes_on

    def _tell_of(self, call: BotCall, moment: Moment) -> None:
        for listener in self.on_call:
            listener(call, moment)

    def _route(self, request: HttpRequest) -> tuple[str, Params]:
        match = re.fullmatch(r"/(file/)?bot([^/]+)/(.+)", request.path)
        if match is None:
            raise RefusedError(404, "Not Found")
        if not _TOKEN.fullmatch(match[2]):
            raise RefusedError(401, "Unauthorized: invalid token specified")
        if match[2] != self.token:
            raise RefusedError(401, "Unauthorized")
        if match[1]:
            return DOWNLOAD, Params({"file_path": match[3]})
        name = METHODS.get(match[3].lower())
        if name is None or request.method not in ("GET", "POST"):
            raise RefusedError(404, "Not Found: method not found")
        return name, request.params()

    async def _before(self, connection: ServerConnection, call: BotCall, fault: TelegramFault) -> bool:
        """Do what goes wrong before a call is executed; return whether the connection still serves."""
        if fault.delay_s and not await connection.unless_gone(partial(trio.sleep, fault.delay_s)):
            return False
        if fault.stall == "before":
            return await self._never(connection)
        if fault.drop == "before":
            return False
        if fault.status is None:
            return True
        wait_s = fault.parameters.get("retry_after")
        if wait_s is not None:
            # a call that comes too early is that, whether or not it would have been refused anyway
            self.flood.check(call.method, call.params, call.chat_id, call.at)
            scope = EVERYWHERE if fault.everywhere else call.method if call.chat_id is None else call.chat_id
            self.flood.announce(scope, wait_s, trio.current_time())
        raise RefusedError(fault.status, fault.description, **fault.parameters)

    async def _after(self, connection: ServerConnection, answer: _Answer, fault: TelegramFault | None) -> bool:
        """Send an answer, or what goes wrong with it; return whether the connection can be used again."""
        status, body, headers = answer
        if fault is None:
            return await connection.answer(status, body, headers)
        if fault.stall == "after":
            return await self._never(connection)
        if fault.drop == "after":
            return False
        if fault.raw is not None:
            body, headers = fault.raw, {"Content-Type": fault.content_type}
        return await connection.answer(status, body, headers, fault.cut_after_bytes)

    async def _never(self, connection: ServerConnection) -> bool:
        await connection.gone()
        return False

    async def _execute(self, connection: ServerConnection, call: BotCall, params: Params) -> _Answer | None:
        """Return the answer to a call; None if the client has left."""
        if call.method == DOWNLOAD:
            file = self.file_at(call.params["file_path"])
            if file is None or file.content is None:
                raise RefusedError(404, "Not Found")
            return 200, file.content, {"Content-Type": "application/octet-stream"}
        self.flood.check(call.method, call.params, call.chat_id, call.at)
        if call.method == "getUpdates":
            updates = await self._get_updates(connection, params)
            return None if updates is None else (200, b'{"ok":true,"result":[' + b",".join(updates) + b"]}", _JSON)
        if call.method in IN_CHATS:
            result = IN_CHATS[call.method](self, chat_of(self, params), params)
        else:
            result = OF_THE_BOT[call.method](self, params)
        return 200, msgspec.json.encode({"ok": True, "result": result}), _JSON

    async def _get_updates(self, connection: ServerConnection, params: Params) -> list[bytes] | None:
        if self.webhook:
            raise await self.queue.conflict(WEBHOOK_ACTIVE)
        limit, longest_s = bounded(params.integer("limit", 100), params.integer("timeout"))
        offset = params.integer("offset")
        allow(self, params)
        found, timeout_s = self.queue.ask(offset, limit, longest_s)
        refusal: RefusedError | None = None

        async def poll() -> None:
            nonlocal found, refusal
            try:
                found = await self.queue.wait(offset, limit, timeout_s)
            except RefusedError as conflict:
                refusal = conflict

        if not found and timeout_s and not await connection.unless_gone(poll):
            return None
        if refusal is not None:
            raise refusal
        return [update.raw for update in found]

    # -- webhooks ----------------------------------------------------------------------------------------------------

    async def deliver_webhook(self) -> int:
        """Post what waits to the webhook, one by one, until one is refused; return how many it took."""
        taken = 0
        while self.webhook and (waiting := self.queue.head(1)):
            status = await self._post_webhook(waiting[0])
            if not 200 <= status < 300:
                failed = f"Wrong response from the webhook: {status}"
                self.webhook |= {"last_error_date": self.now(), "last_error_message": failed}
                break
            self.queue.confirm(waiting[0])
            taken += 1
        return taken

    async def _post_webhook(self, update: Update) -> int:
        if not self.webhook["url"].startswith("http://"):
            raise ValueError("the fake delivers over plain HTTP only")
        secret = self.webhook["secret_token"]
        headers = _JSON | ({"X-Telegram-Bot-Api-Secret-Token": secret} if secret else {})
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=_WEBHOOK_S) as client:
            return (await client.post(self.webhook["url"], content=update.raw, headers=headers)).status_code


def _number(value: str) -> int | None:
    return int(value) if re.fullmatch(r"-?\d{1,19}", value) else None


def _refusal(refusal: RefusedError) -> bytes:
    body: dict[str, Any] = {"ok": False, "error_code": refusal.status, "description": refusal.description}
    if refusal.parameters:
        body["parameters"] = refusal.parameters
    return msgspec.json.encode(body)


# -- by hand ---------------------------------------------------------------------------------------------------------


async def _serve_by_hand(port: int, token: str, control: bool, chat: bool) -> None:
    async with FakeTelegram.serve(port=port, token=token, control=control) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        if chat:
            await remote.chat(server)
        else:
            await trio.sleep_forever()


def main() -> None:
    """Serve until interrupted, or until the person who chats has left."""
    options = remote.options(TOKEN)
    try:
        trio.run(_serve_by_hand, options.port, options.token, options.control, options.chat)
    except* KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
