"""`daycare chat`: a conversation in the terminal, or lines in and answers out in a pipe."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daycare.api.client import ENDED, Client, new_key
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.limits import ASK_DEADLINE_S
from daycare.cli.command import Cli, command
from daycare.cli.messages import acknowledge, answer_text
from daycare.store.home import Home

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

LEAVE = frozenset({"/quit", "/exit"})
COMMAND_WAIT_S = 10.0  # chat commands are answered by the daemon itself, not by a model
OPEN_S = 5.0


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    command(
        app,
        "chat",
        examples="""
        daycare chat
        daycare chat /ann/agent/scribe
        echo "What is on today?" | daycare chat
        """,
    )(chat)


def chat(
    cli: Cli,
    path: Annotated[
        str | None, typer.Argument(help="Path of the agent; default: your own.", show_default=False)
    ] = None,
) -> None:
    """Talk to an agent.

    Enter sends, Alt-Enter begins a new line, Ctrl-C stops the running turn, Ctrl-D leaves. Lines that begin with /
    are commands: /help lists them. When stdin is no terminal, each line is sent and each answer printed.
    """
    open_chat(cli, path)


def open_chat(cli: Cli, path: str | None, *, asks: bool = False) -> None:
    """Connect and talk to the agent at `path`, or to the operator's own.

    Of an agent that `asks` its person for approvals these are shown here, too.
    """
    with cli.connect(work=True) as client:
        if cli.json or not sys.stdin.isatty():
            _answer_lines(cli, client, path)
        else:
            _Window(cli.home, client, path, asks=asks).talk()


def _answer_lines(cli: Cli, client: Client, path: str | None) -> None:
    for line in sys.stdin:
        text = line.strip()
        if text in LEAVE:
            return
        if text:
            answer = client.ask(text, path=path, timeout_s=ASK_DEADLINE_S)
            cli.out(answer, answer_text)
            acknowledge(client, answer)


def _who_answers(client: Client, user: str) -> str:
    """Return the path of the agent that answers in somebody's terminal."""
    own = f"/{user}/direct"
    try:
        chosen = client.call("GET", "/v1/agent", path=own)["agent"]["config"].get("answers")
    except NotFoundError:
        return own  # nobody has spoken to it yet
    return f"/{user}/agent/{chosen}" if chosen else own


class _Window:
    """The interactive chat: the prompt in the main thread, a Follower that prints above it."""

    def __init__(self, home: Path, client: Client, path: str | None, *, asks: bool) -> None:
        from prompt_toolkit.output.defaults import create_output

        from daycare.cli.chat_link import EventFollower
        from daycare.cli.chat_screen import Screen

        self._client = client
        self._target = path  # None is the operator's own agent, which the daemon creates when it is spoken to
        user = path.split("/")[1] if path else client.call("GET", "/v1/status")["user"]
        shown = path or _who_answers(client, user)
        columns = create_output().get_size().columns
        self._screen = Screen(shown, color="NO_COLOR" not in os.environ, width=columns)
        if path is None or asks:
            self._screen.hear(f"/{user}/direct")  # where notices and answers of scheduled jobs come, whoever answers
        # With /use another agent of the person may answer here: all of theirs are heard.
        watched = f"/{user}/**" if path is None or asks else path
        self._follower = EventFollower(home, client, self._screen, watched=watched, changed=self._redraw)
        self._session = self._prompt_session(home)

    def talk(self) -> None:
        """Prompt, send, show, until the person leaves. Raises what made the daemon unreachable."""
        from prompt_toolkit.patch_stdout import patch_stdout

        print(f"{self._screen.path}   /help for commands, Ctrl-D to leave")
        with patch_stdout(raw=True), self._leaving():
            try:
                self._follower.start(OPEN_S)
                while self._turn():
                    pass
            finally:
                self._follower.stop()
        if self._follower.failure:
            raise self._follower.failure

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        """Let the signals that end this process end the prompt first: what is raised in a loop may be lost in it."""
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        came: list[int] = []

        def leave(number: int, _frame: object) -> None:
            app = self._session.app
            if app.loop is None or not app.is_running:
                raise SystemExit(128 + number)
            came.append(number)
            app.loop.call_soon_threadsafe(self._give_up)

        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, leave)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if came:
            raise SystemExit(128 + came[0])

    def _turn(self) -> bool:
        if self._follower.failure:
            return False
        try:
            text = self._session.prompt(self._message).strip()
        except KeyboardInterrupt:
            self._interrupt()
            return True
        except EOFError:
            return False
        if text in LEAVE or self._follower.failure:
            return False
        if text:
            self._send(self._screen.meant(text))
        return True

    def _send(self, text: str) -> None:
        key = new_key()
        try:
            if text.startswith("/"):
                answer = self._client.persist(text, key=key, path=self._target, wait_s=COMMAND_WAIT_S)
            else:
                answer = self._client.persist(text, key=key, path=self._target)
            if self._target is None:
                self._screen.follow(answer["path"])
            if answer["state"] in ENDED:
                self._screen.show_answer(answer)
                self._follower.fetch()
            else:
                self._screen.sent(answer["seq"])
        except DaycareError as error:
            self._screen.note(f"not sent: {error}")
        except KeyboardInterrupt:
            self._screen.note("stopped waiting; the message may have been sent")

    def _interrupt(self) -> None:
        if self._screen.busy:
            self._send("/stop")  # not POST /v1/stop, whose confirmation this window would only find later
        elif not self._session.default_buffer.text:
            self._screen.note("Ctrl-D to leave")

    def _message(self) -> Any:
        """Return the prompt; above it stands the line that the agent is writing."""
        tail = self._screen.tail or ("…" if self._screen.busy else "")
        return [("", f"{tail}\n")] * bool(tail) + [("bold", "> ")]

    def _redraw(self) -> None:
        """Show a change of what stands above the prompt; called by the follower's thread."""
        app = self._session.app
        app.invalidate()
        if self._follower.failure and app.loop is not None:
            app.loop.call_soon_threadsafe(self._give_up)

    def _give_up(self) -> None:
        if self._session.app.is_running and not self._session.app.is_done:
            self._session.app.exit(exception=EOFError)

    def _prompt_session(self, home: Path) -> "PromptSession[str]":
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

        history = Home(home).history_file
        os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))  # before anything is written to it
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        return PromptSession(history=FileHistory(str(history)), key_bindings=keys, multiline=True)
