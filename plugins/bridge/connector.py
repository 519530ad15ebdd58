"""The connector of one bridge: what the host asks for becomes requests, and replies wait while it is away."""

from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

import trio

from daycare.base import bridge
from daycare.base.bridge import FileAt, Hello, Result
from daycare.base.connector import BaseConnector, Capabilities, Identity, Outgoing, Pairing
from daycare.base.errors import AwayError, UnavailableError
from daycare.messenger.starting import Start
from daycare_plugins.bridge import parts
from daycare_plugins.bridge.folder import BridgeFolder
from daycare_plugins.bridge.session import Session
from daycare_plugins.bridge.settings import Supervision

SEND_S: Final = 50.0  # a delivery has 60 s, and each file its own time
CALL_S: Final = 9.0  # of what is only shown: it has 10 s
START_S: Final = 40.0  # until there is one to ask
LOGIN_S: Final = 60.0  # until there is a code
STARTING_S: Final = 0.2  # between two looks while it starts
AWAY_AGAIN_S: Final = 5.0  # looking costs nothing
MARK: Final = "(this may be a duplicate)"

_NOTHING: Final = Capabilities()


class BridgeConnector(BaseConnector):
    """One bridge, as the host sees it."""

    pull = False
    manner = (
        "Your answers are read in a messenger that shows little formatting, in messages of limited length: write short "
        "paragraphs and plain lists."
    )

    def __init__(self, name: str, settings: Supervision, folder: Callable[[], BridgeFolder]) -> None:
        self.name = name
        self.hello: Hello | None = None
        self.session: Session | None = None
        self.running = trio.Event()  # there is a session, or it ended without one
        self.failure = ""  # why it ended last
        self.connected = False  # its platform is there
        self.starting = True  # it will be there soon: what waits is not tried and failed
        self.who = ""
        self.codes = Pairing(state="off")
        self.begin: Callable[[], None] = lambda: None  # lets it run that was left alone
        self._settings = settings
        self._folder = folder
        self._start = Start(lambda: self.delay_s(""))

    # == answers =======================================================================================================

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """Return the reply in parts: text as long as is set, each file by itself."""
        return parts.split(outgoing, self._settings.text_max_chars)

    def delay_s(self, target: str) -> float:
        """Return a moment while it starts."""
        return STARTING_S if self.starting and not self.connected else 0.0

    async def send(self, outgoing: Outgoing) -> str:
        """Send one part; return the platform's receipt, of all parts the first one."""
        if outgoing.markup is not parts.WHOLE:
            receipts = [await self.send(part) for part in self.split(outgoing)]
            return receipts[0]
        self._check_connected()
        files = await self._put(outgoing)
        try:
            answer = await self._ask(
                lambda id_: bridge.Send(
                    id=id_,
                    key=outgoing.key,
                    to=outgoing.target,
                    text=outgoing.text,
                    mark=MARK if outgoing.maybe_duplicate else "",
                    files=files,
                    reply_to=outgoing.reply_to,
                    silent=outgoing.silent,
                ),
                SEND_S + sum(file.travel_s for file in outgoing.files),
            )
        finally:
            if files:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(self._folder().drop, outgoing.key)
        return answer.receipt

    async def notice(self, target: str, text: str, key: str, again: bool) -> None:
        """Send a line to somebody, past the outbox."""
        mark = MARK if again else ""
        await self._ask(lambda id_: bridge.Send(id=id_, key=key, to=target, text=text, mark=mark), SEND_S)

    async def _put(self, outgoing: Outgoing) -> tuple[FileAt, ...]:
        if not outgoing.files:
            return ()
        self._check(bridge.FILES)
        folder = self._folder()

        def put() -> tuple[FileAt, ...]:
            return tuple(
                FileAt(
                    name=file.name,
                    media_type=file.media_type,
                    size=file.size,
                    path=folder.put(outgoing.key, number, file),
                )
                for number, file in enumerate(outgoing.files)
            )

        try:
            return await trio.to_thread.run_sync(put)
        except OSError as error:
            raise UnavailableError("NOT_SENT", f"sending a file over {self.name}: {error.strerror}") from error

    # == what may be left out ==========================================================================================

    def capabilities(self, target: str) -> Capabilities:
        """Return what the bridge has said that it can do; nothing before it has said so."""
        if self.hello is None or not self.connected:
            return _NOTHING
        able = set(self.hello.capabilities)
        return Capabilities(
            typing_s=self.hello.typing_s if bridge.TYPING in able else 0.0,
            edits=bridge.EDITS in able,
            # A reply grows in a message where this is there. Some platforms show each edit, so a bridge has to want it.
            withdrawals={bridge.DELETIONS, bridge.PREVIEWS} <= able,
            reactions=bridge.REACTIONS in able,
            files=bridge.FILES in able,
            preview_every_s=3.0,
        )

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Replace the text of a message; of what is too long for one, the beginning stays."""
        self._check(bridge.EDITS)
        shown = (parts.cut(text, self._settings.text_max_chars) or [""])[0]
        await self._ask(lambda id_: bridge.Edit(id=id_, to=target, message=receipt, text=shown), CALL_S)

    async def withdraw(self, target: str, receipt: str) -> None:
        """Delete a message."""
        self._check(bridge.DELETIONS)
        await self._ask(lambda id_: bridge.Delete(id=id_, to=target, message=receipt), CALL_S)

    async def act(self, target: str, action: str) -> None:
        """Show for some seconds that the agent types."""
        self._check(bridge.TYPING)
        await self._ask(lambda id_: bridge.Typing(id=id_, to=target), CALL_S)

    async def status(self, target: str, text: str) -> str:
        """Send a line without a sound."""
        shown = (parts.cut(text, self._settings.text_max_chars) or [""])[0]
        key = f"status:{uuid4().hex}"  # it is not tried again
        make = lambda id_: bridge.Send(id=id_, key=key, to=target, text=shown, silent=True)  # noqa: E731
        return (await self._ask(make, CALL_S)).receipt

    async def react(self, target: str, message: str, emoji: str) -> None:
        """Put an emoji to a message, or take it away."""
        self._check(bridge.REACTIONS)
        await self._ask(lambda id_: bridge.React(id=id_, to=target, message=message, emoji=emoji), CALL_S)

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Let the bridge put a file into the folder, and return its bytes; while it starts, wait for it."""
        await self._start.over()
        self._check(bridge.FETCH)
        answer = await self._ask(lambda id_: bridge.Fetch(id=id_, reference=reference, max_bytes=max_bytes), SEND_S)
        return await trio.to_thread.run_sync(self._folder().read, answer.path, max_bytes)

    def identity(self) -> Identity | None:
        """Return the account."""
        return Identity(id=self.who, name=self.who) if self.who else None

    # == pairing =======================================================================================================

    async def pair(self, phone: str) -> Pairing:
        """Begin to pair; codes come by and by."""
        await self._awake()
        await self._ask(lambda id_: bridge.Login(id=id_, phone=phone), LOGIN_S)
        return self.codes

    def lost(self) -> None:
        """There is no session any more; who waits for one already goes on waiting."""
        self.session = None
        if self.running.is_set():
            self.running = trio.Event()

    def ended(self, why: str) -> None:
        """It does not run any more: who waits for it hears why."""
        self.failure = why
        self.running.set()
        self.running = trio.Event()

    def pairing(self) -> Pairing:
        """Return the code of the moment."""
        return self.codes

    async def unpair(self) -> None:
        """Let the bridge give the account back."""
        await self._awake()
        await self._ask(lambda id_: bridge.Logout(id=id_), LOGIN_S)

    async def _awake(self) -> None:
        """Let it run, if it does not, and look whether it can pair."""
        self.failure = ""
        self.begin()
        with trio.move_on_after(START_S):
            while self.session is None and not self.failure:
                await self.running.wait()
        if self.session is None and self.failure:
            raise UnavailableError(
                "BRIDGE_ENDED", f"starting the bridge {self.name}: it ended: {self.failure}", hint="daycare logs"
            )
        self._check(bridge.LOGIN)

    # == asking ========================================================================================================

    async def _ask(self, make: Callable[[str], bridge.Request], deadline_s: float) -> Result:
        if self.session is None:
            raise AwayError(
                "NOT_SENT",
                f"asking {self.name}: it does not run",
                hint="daycare bridge list",
                retry_after_s=AWAY_AGAIN_S,
            )
        return await self.session.request(make, deadline_s)

    def _check(self, capability: str) -> None:
        if self.session is not None and self.hello is not None and capability not in self.hello.capabilities:
            raise self._cannot(capability)

    def _check_connected(self) -> None:
        if not self.connected:
            raise AwayError(
                "NOT_SENT",
                f"sending over {self.name}: it is not connected",
                hint="daycare bridge list",
                retry_after_s=AWAY_AGAIN_S,
            )
