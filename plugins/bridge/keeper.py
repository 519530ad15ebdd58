"""Keeps a bridge going: started, watched, ended and begun anew, and left alone when it only fails.

Whatever the bridge does, this goes on. What it does not do by itself is start one whose account was taken away or is
used elsewhere: that would be a quarrel with the platform, so it waits for somebody to say so.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from subprocess import PIPE
from typing import Final

import trio
from msgspec.structs import replace

from daycare.base import bridge
from daycare.base.connector import Health, Pairing
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError
from daycare.plugin import PluginContext
from daycare_plugins.bridge.connector import BridgeConnector
from daycare_plugins.bridge.folder import BridgeFolder, end
from daycare_plugins.bridge.intake import BridgeIntake
from daycare_plugins.bridge.reading import one_line
from daycare_plugins.bridge.sandbox import wrapped
from daycare_plugins.bridge.session import Session
from daycare_plugins.bridge.settings import Supervision

EXITS_S: Final = 60.0  # within which exits are counted
ALONE_S: Final = 900.0  # for so long it is left alone; then it is tried once
BACKOFF_S: Final = 0.2
BACKOFF_MAX_S: Final = 30.0
STOP_S: Final = 3.0  # a plugin has 5 s to go
QR_MAX_CHARS: Final = 2_000  # what one can hold, with room for its marks
SOON_S: Final = 10.0  # for so long after an end a reply waits without being tried

Command = Callable[[], tuple[Sequence[str], Mapping[str, str]]]  # the words, and what is added to the environment

_STATES: Final[Mapping[str, str]] = {
    bridge.CONNECTING: "starting",
    bridge.CONNECTED: "up",
    bridge.UNREACHABLE: "away",
    bridge.PAIRING: "off",
    bridge.LOGGED_OUT: "refused",
    bridge.REPLACED: "conflict",
    bridge.RESTART_REQUIRED: "starting",
}
_FINAL: Final = (bridge.LOGGED_OUT, bridge.REPLACED)
_ALERTS: Final = (bridge.LOGGED_OUT, bridge.REPLACED)


class BridgeKeeper:
    """Keeps one bridge. `command` is asked at each start, so that a stored secret takes effect at the next."""

    def __init__(
        self, context: PluginContext, connector: BridgeConnector, settings: Supervision, command: Command
    ) -> None:
        self.connector = connector
        self.state = ""  # as the bridge said last
        self._before = ""  # it fell silent
        self.note = ""  # why it is not in a sandbox
        self._context = context
        self._settings = settings
        self._command = command
        self._exits: deque[float] = deque()
        self._kicked = trio.Event()
        self._restart = False
        self._given_up = False  # it was left alone, and has not worked since
        self._worked = False  # in this life it was connected
        self._told: Health | None = None
        connector.begin = self._kick

    @property
    def folder(self) -> BridgeFolder:
        """The bridge's own folder."""
        return BridgeFolder(self._context.data / self.connector.name)

    async def run(self) -> None:
        """Keep it going until cancelled. Raises nothing."""
        backoff_s = BACKOFF_S
        while True:
            self._tell(Health(state="starting", reason="the bridge starts"))
            why = await self._live()
            restart, self._restart = self._restart, False
            if not restart:
                self.connector.ended((self.state in _FINAL and self.connector.codes.reason) or why)
            if self.state in _FINAL:
                self.connector.starting = False
                await self._wait(None)  # it said itself what is the matter
                continue
            self._exits.append(trio.current_time())
            while self._exits[0] < trio.current_time() - EXITS_S:
                self._exits.popleft()
            self._context.log.warning("bridge_ended", connector=self.connector.name, why=why, exits=len(self._exits))
            if self._worked:
                self._given_up = False
            if self._given_up or 0 < self._settings.exits_max <= len(self._exits):
                await self._leave_alone(why)
                backoff_s = BACKOFF_S
                continue
            if self._worked:
                backoff_s = BACKOFF_S
            if restart and len(self._exits) == 1:
                continue
            self.connector.starting = backoff_s < SOON_S
            self._tell(Health(state="away", reason=f"the bridge ended: {why}; it is started again"))
            await self._wait(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    async def _leave_alone(self, why: str) -> None:
        """Try it no more for a while, and once then. The operator is told the first time."""
        self.connector.starting = False
        name = self.connector.name
        reason = f"the bridge only fails ({why}): it is left alone and tried again in {ALONE_S / 60:.0f} minutes"
        hint = f"daycare logs; daycare bridge login {name}"
        self._tell(Health(state="refused", reason=reason, hint=hint, alert=not self._given_up))
        self._context.log.error("bridge_left_alone", connector=name, why=why)
        self._given_up = True
        self._exits.clear()
        await self._wait(ALONE_S)

    def _kick(self) -> None:
        self._kicked.set()

    async def _wait(self, seconds: float | None) -> None:
        with trio.move_on_after(float("inf") if seconds is None else seconds):
            await self._kicked.wait()
            self._exits.clear()
            self._given_up = False

    # == one life ======================================================================================================

    async def _live(self) -> str:
        """Run it until it ends; return why."""
        self.state, self._before, self._worked = "", "", False
        self._kicked = trio.Event()
        self.connector.starting = True
        try:
            with error_boundary("BRIDGE_CRASHED", f"running the bridge {self.connector.name}"):
                return await self._run()
        except DaycareError as error:
            return error.message

    async def _run(self) -> str:
        folder, name = self.folder, self.connector.name

        def prepare() -> tuple[list[str], str]:
            folder.prepare()
            if (left := folder.sweep()) is not None:
                self._context.log.warning("bridge_left_behind", connector=name, pid=left)
            return wrapped(words, folder.path, self._settings.readable, self._settings.sandbox)

        try:
            words, environment = self._command()
            command, self.note = await trio.to_thread.run_sync(prepare)
            process = await trio.lowlevel.open_process(
                command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=folder.path,
                env={"HOME": str(folder.path.resolve()), **environment},
                start_new_session=True,
            )
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        session = Session(name, process, self._settings, self._context.log, self._heard, self._quiet)
        try:
            await trio.to_thread.run_sync(folder.started, process.pid)
            intake = BridgeIntake(self._context, name, self._settings, folder, self.connector.notice)
            async with trio.open_nursery() as nursery:

                def serve(session: Session) -> None:
                    self.connector.hello, self.connector.session = session.hello, session
                    self.connector.running.set()
                    nursery.start_soon(intake.run, session)
                    nursery.start_soon(intake.tell)

                await session.run(serve)
                nursery.cancel_scope.cancel()
        finally:
            self.connector.lost()
            self.connector.connected, self.connector.starting = False, True
            with trio.CancelScope(shield=True):
                await self._end(process, 0.0 if session.deaf else STOP_S)
        return session.problem or f"it left with {process.returncode}"

    async def _end(self, process: trio.Process, patience_s: float) -> None:
        """Let it end in order, or make it."""
        assert process.stdin is not None
        with trio.move_on_after(patience_s):
            try:
                await process.stdin.send_all(bridge.encode(bridge.Stop()))
                await process.stdin.aclose()
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                pass
            await process.wait()
        end(process.pid)
        await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                await stream.aclose()

    # == what it says of itself ========================================================================================

    def _heard(self, frame: bridge.State | bridge.Qr | bridge.Code | bridge.Result) -> None:
        match frame:
            case bridge.Result():
                state = frame.state or self._before
                if state and state != self.state:
                    self._stated(bridge.State(state=state, identity=self.connector.who))
            case bridge.State():
                self._stated(frame)
            case bridge.Qr():
                self._codes(qr=frame.data, seconds=frame.expires_in_s)
            case bridge.Code():
                self._codes(code=frame.code, seconds=frame.expires_in_s)

    def _quiet(self) -> None:
        """It does not answer: that it was connected is no longer known."""
        if self.state:
            self._before, self.state = self.state, ""
            self.connector.connected, self.connector.starting = False, True  # it comes back, or is started anew
            self._tell(Health(state="stalled", reason="the bridge does not answer"))

    def _codes(self, *, qr: str = "", code: str = "", seconds: float = 0.0) -> None:
        until_ms = self._context.now_ms() + int(1_000 * min(max(seconds, 0.0), 3_600.0))
        self.connector.codes = Pairing(
            state=bridge.PAIRING, qr=qr[:QR_MAX_CHARS], code=one_line(code, 40), until_ms=until_ms
        )

    def _stated(self, state: bridge.State) -> None:
        if state.state not in _STATES:
            self._context.log.warning("bridge_state_unknown", connector=self.connector.name)
            return
        self.state, self._before = state.state, ""
        connector = self.connector
        connector.connected = state.state == bridge.CONNECTED
        connector.starting = state.state in (bridge.CONNECTING, bridge.RESTART_REQUIRED)
        if connector.connected:
            self._worked, self._kicked = True, trio.Event()  # what somebody wanted has come true
        connector.who = one_line(state.identity, 100) or (connector.who if connector.connected else "")
        reason, hint = one_line(state.reason, 300), one_line(state.hint, 300)
        if connector.connected:
            reason = self.note
        elif state.retry_in_s is not None:
            reason += f"; tried again in {state.retry_in_s:.0f} s"
        if state.state in (bridge.PAIRING, bridge.LOGGED_OUT, bridge.REPLACED):
            hint = hint or f"daycare bridge login {connector.name}"
        known = connector.codes if state.state == bridge.PAIRING else Pairing(state="")
        connector.codes = replace(known, state=state.state, reason=reason, hint=hint, identity=connector.who)
        self._tell(
            Health(
                state=_STATES[state.state],  # type: ignore[arg-type]  # one of the literals
                reason=reason or state.state,
                hint=hint,
                identity=connector.who,
                alert=state.state in _ALERTS,
            )
        )
        if state.state == bridge.RESTART_REQUIRED:
            self._restart = True
        if state.state in (bridge.RESTART_REQUIRED, bridge.REPLACED) and connector.session is not None:
            connector.session.finish(f"it said {state.state}")
            connector.lost()  # who pairs now waits for the next one

    def _tell(self, health: Health) -> None:
        if health.state == "up":
            health = replace(health, reason=self.note)
        if health != self._told:
            self._told = health
            self._context.report(self.connector.name, health)
