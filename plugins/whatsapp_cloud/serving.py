"""Serving the number: client, webhook, and looking whether messages can come in. Importing this brings in all the rest.

`up` is said only with proof: a signed request of Meta's came in, or one of our own did by the public address.
"""

import secrets
from typing import Any, Final

import msgspec
import trio

from daycare.base.connector import Health, Identity
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.messenger.json_paths import text_at
from daycare.messenger.text import one_line
from daycare.plugin import PluginContext
from daycare_plugins.whatsapp_cloud.client import Graph
from daycare_plugins.whatsapp_cloud.connector import CloudConnector
from daycare_plugins.whatsapp_cloud.failures import REFUSED
from daycare_plugins.whatsapp_cloud.http_in import SIGNATURE, CloudHook, signature
from daycare_plugins.whatsapp_cloud.intake import PROBE, CloudIntake, Recent
from daycare_plugins.whatsapp_cloud.receipts import Receipts
from daycare_plugins.whatsapp_cloud.settings import APP_SECRET, DEAF, VERIFY_TOKEN, CloudSettings
from daycare_plugins.whatsapp_cloud.settings import CONNECTOR as NAME
from daycare_plugins.whatsapp_cloud.settings import NAME as SECRET

LOOK_S: Final = 60.0  # between two looks at how it goes
LOOK_MIN_S: Final = 5.0  # after trouble; it doubles up to the above
HEARD_FRESH_S: Final = 600.0  # a request of Meta's proves for so long that its way to us is open
HEARD_STEP_MS: Final = 3_600_000  # how often it is remembered that Meta has called
HEARD: Final = "heard"  # the name under which that is remembered


class CloudServing:
    """The number, for as long as its token stays the same."""

    def __init__(
        self,
        context: PluginContext,
        settings: CloudSettings,
        connector: CloudConnector,
        hook: CloudHook,
        transport: Any = None,
    ) -> None:
        self.receipts = Receipts(context, NAME)
        self._context = context
        self._settings = settings
        self._connector = connector
        self._transport = transport
        self._recent = Recent()
        self.intake = CloudIntake(
            context, NAME, settings.phone_number_id, connector.people, self.receipts, self._recent, connector
        )
        self._hook = hook
        self._told: Health | None = None
        self._heard_at: float | None = None  # by trio's clock, in this run
        self._heard_ms = 0  # remembered
        self._store_away = ""
        self._began = trio.current_time()

    @property
    def state(self) -> str:
        """How it is, in a few words."""
        told = self._told.state if self._told is not None else "off"
        sent = ", ".join(f"{count} {state}" for state, count in sorted(self.receipts.counts.items()))
        refused = sum(self._hook.refused.values())
        return told + (f"; messages: {sent}" if sent else "") + (f"; {refused} requests refused" if refused else "")

    async def run(self) -> None:
        """Receive and send until cancelled."""
        async with Graph(self._settings, lambda: self._secret(SECRET), self._transport) as graph:
            await self._connector.people.load()
            await self.receipts.load()
            known = await self._context.recall(NAME, HEARD)
            self._heard_ms = int(known) if known.isdecimal() else 0
            self._connector.open(graph, self.receipts, self._recent)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.intake.run)
                    nursery.start_soon(self._look, graph)
                    with self._context.taking(NAME, self._take):
                        await trio.sleep_forever()
            finally:
                self._connector.close()

    def _secret(self, name: str) -> str:
        try:
            return (self._context.secret(name) or "").strip()
        except DaycareError:
            return ""

    def deaf(self, why: str) -> None:
        """Tell why Meta cannot post to this node; empty: it can."""
        if why:
            self._tell("away", why, DEAF)

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _take(self, body: bytes) -> None:
        probed = self.intake.probed
        try:
            await self.intake.take(body)
        except (BusyError, UnavailableError) as error:
            self._store_away = error.message
            self._tell("away", f"keeping what came: {error.message}", error.hint)
            raise
        self._store_away = ""
        if self.intake.probed != probed:
            return
        self._heard_at = trio.current_time()
        now_ms = self._context.now_ms()
        if now_ms - self._heard_ms >= HEARD_STEP_MS:
            self._heard_ms = now_ms
            await self._context.remember(NAME, HEARD, str(now_ms))
        if self._connector.who is not None:
            self._tell("up")

    # -- how it goes -------------------------------------------------------------------------------------------------

    async def _look(self, graph: Graph) -> None:
        pause_s = LOOK_MIN_S
        while True:
            try:
                about = await graph.number()
                number = one_line(text_at(about, "display_phone_number"), 40)
                name = one_line(text_at(about, "verified_name"))
                self._connector.who = Identity(id=self._settings.phone_number_id, name=number or name)
                good = await self._receiving(graph)
            except DaycareError as error:
                good = False
                self._tell("refused" if error.code == REFUSED else "away", error.message, error.hint)
            pause_s = LOOK_S if good else min(2 * pause_s, LOOK_S)
            await trio.sleep(pause_s)

    async def _receiving(self, graph: Graph) -> bool:
        """Tell whether messages can come in; return whether nothing is to be mended."""
        missing = [name for name in (APP_SECRET, VERIFY_TOKEN) if not self._secret(name)]
        if missing:
            self._tell("off", f"no {missing[0].partition('.')[2]} is stored", f"daycare keys add {missing[0]}")
            return False
        if self._store_away:
            return False
        fresh = self._heard_at is not None and trio.current_time() - self._heard_at < HEARD_FRESH_S
        if self._settings.webhook_url and not fresh:
            return await self._probe(graph)
        if fresh or self._heard_at is not None:
            self._tell("up")
        elif self._heard_ms:
            self._tell("starting", "Meta has called in an earlier run, and not yet in this one")
        else:
            new = trio.current_time() - self._began < HEARD_FRESH_S
            hint = f"set the webhook at Meta; its path is {self._settings.path}"
            self._tell("starting" if new else "away", "Meta has not called yet", hint)
        return True

    async def _probe(self, graph: Graph) -> bool:
        nonce = secrets.token_urlsafe(16)
        body = msgspec.json.encode({"object": PROBE, "nonce": nonce})
        proof = signature(body, self._secret(APP_SECRET))
        headers = {SIGNATURE.decode(): proof, "Content-Type": "application/json"}
        try:
            status = await graph.probe(self._settings.webhook_url, body, headers)
        except DaycareError as error:
            problem = error.message
        else:
            if self.intake.probed == nonce:
                self._tell("up")
                return True
            problem = f"calling our own webhook: HTTP {status}"
        self._tell("away", problem, "does `webhook_url` lead through the proxy or tunnel to `listen`?")
        return False

    def _tell(self, state: Any, reason: str = "", hint: str = "") -> None:
        name = self._connector.who.name if self._connector.who is not None else ""
        health = Health(state=state, reason=reason, hint=hint, identity=name)
        if health != self._told:
            self._told = health
            self._context.report(NAME, health)
