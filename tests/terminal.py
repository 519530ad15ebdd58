"""A person at the program, in a terminal."""

import io
import os
import signal
import termios
import threading
from collections.abc import Callable, Mapping
from typing import Final, Self

from pexpect import EOF, TIMEOUT
from pexpect.fdpexpect import fdspawn

from tests import program

DEADLINE_S: Final = 20.0
PROMPT: Final = ">"
CTRL_C, CTRL_D, ALT_ENTER = "\x03", "\x04", "\x1b\r"
_FINGERS_S: Final = 0.05  # nobody types sooner: what the program has just said may stand there before it listens again

Terminals = Callable[..., "Terminal"]


class Terminal:
    """Somebody who reads what the program says and types. `with` ends the program where it is still there."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *arguments: str,
        module: str = program.PROGRAM,
        size: tuple[int, int] = (40, 80),
        deadline_s: float = DEADLINE_S,
    ) -> None:
        ours, theirs = os.openpty()
        self._said = io.StringIO()
        self.child = fdspawn(ours, encoding="utf-8", timeout=deadline_s)
        self.child.logfile_read = self._said
        self._deadline_s = deadline_s
        env = {**environment, "NO_COLOR": "1", "PROMPT_TOOLKIT_NO_CPR": "1", "PYTHONFAULTHANDLER": "1"}
        try:
            termios.tcsetwinsize(theirs, size)
            self.process = program.start(arguments, env=env, terminal=theirs, module=module)
        finally:
            os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__()
        self.child.close()

    @property
    def said(self) -> str:
        """What was there to read until now."""
        return self._said.getvalue()

    def sees(self, *texts: str) -> None:
        for text in texts:
            self.child.expect_exact(text)

    def sees_in_any_order(self, *texts: str) -> None:
        left = list(texts)
        while left:
            left.pop(self.child.expect_exact(left))

    def types(self, text: str) -> None:
        threading.Event().wait(_FINGERS_S)
        self.child.send(text)

    def answers(self, question: str, answer: str = "") -> None:
        self.sees(question)
        self.types(f"{answer}\r")

    def presses_ctrl_c(self, seen: str) -> None:
        """Press it until something is seen: again if it came when the terminal itself takes it, between two prompts."""
        for _ in range(round(self._deadline_s)):
            self.types(CTRL_C)
            if self.child.expect_exact([seen, TIMEOUT], timeout=1.0) == 0:
                return
        raise AssertionError(f"{seen!r} was not seen: {self.said}")

    def presses_ctrl_d(self) -> None:
        """Leave; once more if it came while the window was being drawn, when the terminal itself takes it."""
        for _ in range(round(self._deadline_s)):
            self.types(CTRL_D)
            if self.child.expect([EOF, TIMEOUT], timeout=1.0) == 0:
                return

    def leaves(self, code: int = 0) -> None:
        if self.child.expect([EOF, TIMEOUT]):
            self.process.send_signal(signal.SIGABRT)  # it tells where each of its threads stands
            self.child.expect([EOF, TIMEOUT])
            raise AssertionError(f"it does not leave: {self.said}")
        assert self.process.wait(self._deadline_s) == code, self.said
