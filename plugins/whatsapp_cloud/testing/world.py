"""People on WhatsApp and what Meta tells of them: webhooks, signed, repeated until they are answered 200."""

import base64
import hashlib
import hmac
import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx
import msgspec
import trio

TOKEN: Final = "EAAfaketoken0123456789abcdefghij"
APP_SECRET: Final = "fake-app-secret-0123456789"
VERIFY_TOKEN: Final = "fake-verify-token"
NUMBER_ID: Final = "106540352242922"
BUSINESS: Final = "102290129340398"
WINDOW_S: Final = 86_400.0
_POST_S: Final = 20.0
_RESULTS_KEPT: Final = 10_000


class Sent(msgspec.Struct, kw_only=True):
    """A message that the API took; `states` are the statuses that were told of it."""

    id: str
    to: str
    kind: str
    payload: dict[str, Any]
    states: list[str] = []

    @property
    def text(self) -> str:
        """Its words, wherever they stand."""
        content = self.payload[self.kind]
        if self.kind == "interactive":
            return str(content["body"]["text"])
        return str(content.get("body") or content.get("caption") or "")

    @property
    def buttons(self) -> list[tuple[str, str]]:
        """(id, title) of its buttons or rows."""
        if self.kind != "interactive":
            return []
        action = self.payload["interactive"]["action"]
        if "buttons" in action:
            return [(each["reply"]["id"], each["reply"]["title"]) for each in action["buttons"]]
        return [(row["id"], row["title"]) for section in action["sections"] for row in section["rows"]]


class Posted(msgspec.Struct, frozen=True):
    """A webhook that was delivered, or not: `status` 0 means that nobody answered."""

    status: int
    body: bytes


class CloudWorld:
    """What people do, and the webhooks that come of it.

    With `automatic` the webhooks are posted to `webhook_url` by themselves, one after another, and again after
    `retry_s` until they are answered 200; else `deliver` does it. Each is posted `copies` times. `wrong_signatures`
    webhooks to come are signed with another secret, and not repeated.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.token, self.app_secret, self.verify_token = TOKEN, APP_SECRET, VERIFY_TOKEN
        self.number_id = NUMBER_ID
        self.clock = clock
        self.webhook_url = ""
        self.automatic = True
        self.copies = 1
        self.wrong_signatures = 0
        self.retry_s = 0.1
        self.names: dict[str, str] = {}
        self.last_said: dict[str, float] = {}
        self.messages: list[Sent] = []
        self.heard: set[str] = set()  # ids of messages that people sent
        self.read: list[dict[str, Any]] = []  # read marks and typing indicators
        self.posts: deque[Posted] = deque(maxlen=_RESULTS_KEPT)
        self.queue: deque[bytes] = deque()
        self._numbers = itertools.count(1)
        self._news = trio.Event()

    # == people ========================================================================================================

    def person(self, who: str, name: str = "") -> str:
        """Let there be somebody with a phone number."""
        self.names[who] = name or f"Person {who[-3:]}"
        return who

    def wamid(self) -> str:
        """Return a new id of a message."""
        return f"wamid.{base64.b64encode(f'fake message number {next(self._numbers):08}'.encode()).decode()}"

    def say(self, who: str, text: str, *, reply_to: str = "", forwarded: bool = False) -> dict[str, Any]:
        """Let somebody write; return the message as the webhook has it."""
        context: dict[str, Any] = {"from": self.number_id, "id": reply_to} if reply_to else {}
        context |= {"forwarded": True} if forwarded else {}
        more = {"context": context} if context else {}
        return self.send(who, "text", {"body": text}, **more)

    def send(self, who: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        """Let somebody send anything."""
        message = self.made(who, kind, content, **more)
        self.post(messages=[message])
        return message

    def press(self, who: str, sent: Sent, button: str) -> dict[str, Any]:
        """Let somebody touch a button or a row, by its title."""
        [found] = [each for each in sent.buttons if each[1] == button]
        kind = "list_reply" if "sections" in sent.payload["interactive"]["action"] else "button_reply"
        content = {"type": kind, kind: {"id": found[0], "title": found[1]}}
        return self.send(who, "interactive", content, context={"from": self.number_id, "id": sent.id})

    def change_number(self, old: str, new: str) -> dict[str, Any]:
        """Let somebody take another number."""
        body = f"User {self.names.get(old, old)} changed from {old} to {new}"
        self.names[new] = self.names.get(old, new)
        return self.send(old, "system", {"body": body, "wa_id": new, "type": "user_changed_number"})

    def made(self, who: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        """Return a message of somebody without posting it."""
        self.names.setdefault(who, f"Person {who[-3:]}")
        if kind not in ("system", "reaction", "revoke"):
            self.last_said[who] = self.clock()
        wamid = self.wamid()
        self.heard.add(wamid)
        about = {"from": who, "id": wamid, "timestamp": str(int(self.clock())), "type": kind}
        return about | {kind: content} | more

    def window_open(self, who: str) -> bool:
        """Whether somebody may be written to freely."""
        return self.clock() - self.last_said.get(who, -WINDOW_S) < WINDOW_S

    # == what we hear of messages ======================================================================================

    def sent(self, who: str) -> list[Sent]:
        """Return the messages that somebody was sent, without reactions."""
        return [message for message in self.messages if message.to == who and message.kind != "reaction"]

    def status(self, message: Sent, state: str, code: int = 0, details: str = "") -> dict[str, Any]:
        """Return a status without posting it."""
        message.states.append(state)
        status: dict[str, Any] = {
            "id": message.id,
            "status": state,
            "timestamp": str(int(self.clock())),
            "recipient_id": message.to,
        }
        if key := message.payload.get("biz_opaque_callback_data"):
            status["biz_opaque_callback_data"] = key
        if code:
            error = {"code": code, "title": details, "message": details, "error_data": {"details": details}}
            status["errors"] = [error]
        return status

    # == webhooks ======================================================================================================

    def post(
        self, *, messages: Sequence[dict[str, Any]] = (), statuses: Sequence[dict[str, Any]] = (), **more: Any
    ) -> bytes:
        """Queue a webhook; return its body."""
        people = dict.fromkeys(
            (
                *(message["from"] for message in messages if message["type"] != "system"),
                *(status["recipient_id"] for status in statuses),
            )
        )
        value: dict[str, Any] = {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "15550783881", "phone_number_id": self.number_id},
        }
        if people:
            value["contacts"] = [
                {"profile": {"name": self.names.get(who, who)}, "wa_id": who, "user_id": f"DE.{who}"} for who in people
            ]
        if messages:
            value["messages"] = list(messages)
        if statuses:
            value["statuses"] = list(statuses)
        change = {"field": "messages", "value": value | more}
        return self.post_raw({"object": "whatsapp_business_account", "entry": [{"id": BUSINESS, "changes": [change]}]})

    def post_raw(self, tree: object) -> bytes:
        """Queue any body."""
        body = tree if isinstance(tree, bytes) else msgspec.json.encode(tree)
        self.queue.append(body)
        self._news.set()
        return body

    def signed(self, body: bytes, secret: str | None = None) -> str:
        """Return the signature of a body."""
        key = (self.app_secret if secret is None else secret).encode()
        return f"sha256={hmac.new(key, body, hashlib.sha256).hexdigest()}"

    async def deliver(self) -> list[int]:
        """Post what waits, each until it is answered; return the statuses of those that were not repeated."""
        statuses = []
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=_POST_S) as client:
            while self.queue:
                body = self.queue[0]
                wrong = self.wrong_signatures > 0
                status = await self._post(client, body, self.signed(body, "another secret" if wrong else None))
                for _ in range(self.copies - 1):
                    await self._post(client, body, self.signed(body))
                if status == 200 or (wrong and status):
                    self.wrong_signatures -= wrong
                    self.queue.popleft()
                    statuses.append(status)
                elif not self.automatic:
                    return [*statuses, status]
                else:
                    await trio.sleep(self.retry_s)
        return statuses

    async def _post(self, client: httpx.AsyncClient, body: bytes, signature: str) -> int:
        headers = {"X-Hub-Signature-256": signature, "Content-Type": "application/json", "User-Agent": "facebookua"}
        try:
            status = (await client.post(self.webhook_url, content=body, headers=headers)).status_code
        except httpx.HTTPError:
            status = 0
        self.posts.append(Posted(status, body))
        return status

    async def deliver_for_ever(self) -> None:
        """Post webhooks as they come, until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            if self.automatic and self.webhook_url:
                await self.deliver()
