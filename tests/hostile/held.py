"""How long the loop was held in one place: processor time of its thread for each step of each task.

Time of the processor and not of the clock, so that another process costs no input anything; pauses of the garbage
collector are not counted against the step in which they fall. What stood on the stack meanwhile is looked at by another
thread, while a step takes long.
"""

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import msgspec
import trio

HELD_MAX_MS: Final = 100.0
LOOK_S: Final = 0.02
HUNG_S: Final = 60.0  # of a step by the clock, after which it is ended: the daemon's watchdog allows as much
OURS: Final = ("tests.", "ours:")  # names of tasks that belong to the campaign and to its fakes


class HungError(BaseException):
    """A step did not end."""


class Hold(msgspec.Struct):
    """A step that took long: `task` is whose, `stack` where it was."""

    ms: float
    task: str
    stack: list[str]


class Watch(trio.abc.Instrument):
    """Measures the steps of all tasks but the campaign's own: `longest_ms`, and as `holds` those above `most_ms`."""

    def __init__(self, most_ms: float = HELD_MAX_MS) -> None:
        self._most_ms = most_ms
        self.longest_ms = 0.0
        self.longest_task = ""
        self.holds: list[Hold] = []
        self._began_s = 0.0
        self._collecting_s = 0.0
        self._collected_s = 0.0
        self._seen: list[str] = []
        self._step = 0
        self._since = 0.0  # by the clock; 0: no step is running
        self._thread = 0
        self._done = threading.Event()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A step begins."""
        if task.name.startswith(OURS):
            return
        self._seen = []
        self._collected_s = 0.0
        self._step += 1
        self._since = time.monotonic()
        self._began_s = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """It ended."""
        if not self._since:
            return
        took_ms = (time.thread_time() - self._began_s - self._collected_s) * 1000
        self._since = 0.0
        if took_ms > self.longest_ms:
            self.longest_ms, self.longest_task = took_ms, task.name
        if took_ms > self._most_ms:
            self.holds.append(Hold(round(took_ms, 1), task.name, self._seen))

    @contextmanager
    def on(self) -> Iterator[None]:
        """Look, within this block; to be used in the thread of the loop."""
        self._thread = threading.get_ident()
        looking = threading.Thread(target=self._look, daemon=True)
        before = signal.signal(signal.SIGUSR1, _hung)
        gc.callbacks.append(self._collects)
        looking.start()
        try:
            yield
        finally:
            self._done.set()
            looking.join()
            gc.callbacks.remove(self._collects)
            signal.signal(signal.SIGUSR1, before)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not count what is done within this block: the loop's thread does it in a test only."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._collected_s += time.thread_time() - began

    def _collects(self, phase: str, _info: dict[str, int]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            self._collected_s += time.thread_time() - self._collecting_s

    def _look(self) -> None:
        while not self._done.wait(LOOK_S):
            step, since = self._step, self._since
            took_s = time.monotonic() - since if since else 0.0
            if took_s > self._most_ms / 2000:
                frame = sys._current_frames().get(self._thread)
                if step == self._step and frame is not None:
                    self._seen = _stack(frame)
                del frame  # it would keep what the function had, such as a cursor that has not ended
            if took_s > HUNG_S:
                os.kill(os.getpid(), signal.SIGUSR1)
                self._done.wait(5.0)


def _hung(_number: int, _frame: FrameType | None) -> None:
    raise HungError(f"a step took more than {HUNG_S:g} s")


def _stack(frame: FrameType) -> list[str]:
    """Return the innermost places of a stack, the daemon's own among them."""
    found = traceback.extract_stack(frame)
    inner: list[Any] = [each for each in found if "/trio/" not in each.filename]
    return [f"{_name(each.filename)}:{each.lineno} {each.name}" for each in inner[-8:]]


def _name(path: str) -> str:
    for top in ("/daycare/", "/plugins/", "/tests/", "/site-packages/", "/python3.11/"):
        if top in path:
            return top[1:].replace("site-packages/", "").replace("python3.11/", "") + path.rpartition(top)[2]
    return path
