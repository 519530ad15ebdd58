"""What a chat window shows of one agent: streamed text, tool steps, replies; each reply once.

A reply reaches a window on up to three ways: as deltas, as the event that its turn finished, and as the stored row
that has to be confirmed. `Screen` knows what is on the screen already. It may be used by several threads.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from daycare.api.client import Json, StreamEvent
from daycare.base.times import when
from daycare.cli.render import one_line, plain

REMEMBER: Final = 1_000  # turns, messages and replies that could still arrive a second time

# Events after which a stored reply may wait that no event carries; `tick` comes every 15 s.
_MAY_BRING_REPLIES: Final = frozenset(
    {"open", "tick", "gap", "turn.finished", "turn.failed", "dead.lettered", "notice", "agent.died", "lane.broke"}
    | {"approval.requested"}
)


class Screen:
    """Writes whole lines; the unfinished one is `tail`, for the caller to show above the prompt."""

    def __init__(
        self, path: str, *, color: bool, width: int = 80, write: Callable[[str], object] | None = None
    ) -> None:
        self.path = path
        self._heard = {path}  # agents whose words have been shown here
        self._write = write or (lambda text: print(text, flush=True))
        self.tail = ""
        self._color = color
        self._width = max(width, 20)
        self._lock = threading.Lock()
        self._streamed = ""  # text of the running model step
        self._turns: deque[tuple[int, str]] = deque(maxlen=REMEMBER)  # (turn, its reply) on the screen
        self._answered: deque[int] = deque(maxlen=REMEMBER)  # messages whose answer is on the screen
        self._rows: deque[int] = deque(maxlen=REMEMBER)  # stored replies on the screen
        self._choices: dict[str, str] = {}  # of the last reply that came with some: what each says, by its label
        self._pending: set[int] = set()
        self._running: set[int] = set()

    @property
    def busy(self) -> bool:
        """Whether a turn runs or a message of this window has no answer yet."""
        return bool(self._pending or self._running)

    @property
    def heard(self) -> tuple[str, ...]:
        """The paths of whom is heard here: who answers, and who did or may do again."""
        return tuple(sorted(self._heard))

    def hear(self, path: str) -> None:
        """Show what happens at one more path."""
        self._heard.add(path)

    def follow(self, path: str) -> None:
        """Show from now on what happens at `path`, the agent that answers here; say so when it is another one."""
        with self._lock:
            if path == self.path:
                return
            self._end_line()
            self._streamed = ""
            self._running.clear()
            self.path = path
            self._heard.add(path)
            self._dim(f"({path} answers here)")

    def meant(self, text: str) -> str:
        """Return what somebody says who types a text: the label of a choice that was offered last means that."""
        with self._lock:
            return self._choices.get(text.casefold(), text)

    def sent(self, seq: int) -> None:
        """Note that message `seq` of this window was committed."""
        with self._lock:
            if seq not in self._answered:
                self._pending.add(seq)

    def show_event(self, event: StreamEvent) -> bool:
        """Show an event; return whether the stored replies should be looked at now."""
        data = event.data
        if event.name == "gap":
            if missed := data.get("missed"):
                self.note(f"(missed {missed} events)")
        elif data.get("path") in self._heard:
            with self._lock:
                self._show(event.name, data)
        return event.name in _MAY_BRING_REPLIES

    def show_replies(self, rows: Iterable[Json], *, missed: bool = False) -> list[int]:
        """Show the stored replies that are not on the screen yet; return the numbers of all, to be confirmed."""
        confirmed = []
        with self._lock:
            for row in rows:
                seq = int(row["seq"])
                if seq not in self._rows and (row.get("turn"), row["text"]) not in self._turns:
                    if missed:
                        self._dim(f"({when(row['created_at'])})")
                    self._reply(row["text"])
                if seq not in self._rows:
                    self._dim_all(_extras(row))
                    if choices := row.get("choices"):
                        self._choices = {each["label"].casefold(): each["says"] for each in choices}
                self._rows.append(seq)
                confirmed.append(seq)
        return confirmed

    def _dim_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._dim(line)

    def show_answer(self, answer: Json) -> None:
        """Show the answer of a message that was waited for."""
        with self._lock:
            self._pending.discard(answer["seq"])
            if answer["seq"] in self._answered:
                return
            self._answered.append(answer["seq"])
            rows = answer.get("replies") or ()
        self.show_replies(rows)
        if not rows and answer.get("result"):
            with self._lock:
                self._reply(answer["result"])

    def note(self, text: str) -> None:
        """Show a remark of the program."""
        with self._lock:
            self._dim(text)

    def forget_running(self) -> None:
        """The daemon went away: what was streamed is not finished, and who runs is not known."""
        with self._lock:
            self._end_line()
            self._streamed = ""
            self._running.clear()

    def _show(self, name: str, data: Json) -> None:
        match name:
            case "turn.started":
                self._running.add(data["turn"])
                self._streamed = ""
            case "turn.delta":
                self._stream(data["text"])
            case "tool.started":
                self._end_line()
                self._streamed = ""
                self._dim(f"  · {one_line(data['tool'])}")
            case "tool.finished":
                self._end_line()
                self._dim(f"  · {one_line(data['tool'])}: {one_line(data['status'])}")
            case "tool.progress":
                self._end_line()
                self._dim(f"  · {one_line(data['tool'])}: {one_line(data['text'], 200)}")
            case "turn.waiting":
                self._end_line()
                self._running.discard(data["turn"])
                number = data["answers"]
                self._dim(f"  · waiting for {number} {'answer' if number == 1 else 'answers'}; go on if you like")
            case "context.compacted":
                self._end_line()
                self._dim("  · summed up the earlier conversation")
            case "turn.finished":
                self._finish(data)
            case "turn.failed":
                self._end_line()
                self._running.discard(data["turn"])
                retry = data.get("retry_in_s")
                then = "given up" if retry is None else f"trying again in {retry:g} s"
                helps = f": {one_line(data['hint'], 200)}" if data.get("hint") else ""
                self._dim(f"  ! {one_line(data['reason'], 200)} ({then}){helps}")
            case "model.failed" if data.get("retry_in_s") is not None:
                self._end_line()
                self._streamed = ""  # what the next try says begins anew
                self._dim(f"  ! {one_line(data['reason'], 200)} (asking again)")
            case "dead.lettered":
                self._pending.clear()
                self._dim(f"  ! given up: {one_line(data['reason'], 200)} (daycare dead show {data['no']})")
            case "notice":
                self._dim(f"  ! {one_line(data['text'], 400)}")

    def _finish(self, data: Json) -> None:
        seqs, reply = data.get("seqs", ()), data.get("reply", "")
        known = bool(seqs) and all(seq in self._answered for seq in seqs)
        streamed, self._streamed = self._streamed, ""
        self._end_line()
        if reply.strip() and not known and plain(reply).strip() != streamed.strip():
            self._reply(reply)
        if data.get("stopped"):
            self._dim("  (stopped)")
        self._running.discard(data["turn"])
        self._turns.append((data["turn"], reply))
        self._answered.extend(seq for seq in seqs if seq not in self._answered)
        self._pending.difference_update(seqs)

    def _stream(self, text: str) -> None:
        text = plain(text)
        self._streamed += text
        *lines, tail = (self.tail + text).split("\n")
        while len(tail) >= self._width:  # a long paragraph goes out in lines as wide as the terminal
            cut = tail.rfind(" ", 1, self._width)
            line, tail = (tail[:cut], tail[cut + 1 :]) if cut > 0 else (tail[: self._width], tail[self._width :])
            lines.append(line)
        for line in lines:
            self._write(line)
        self.tail = tail

    def _end_line(self) -> None:
        tail, self.tail = self.tail, ""
        if tail.strip():
            self._write(tail)

    def _reply(self, text: str) -> None:
        self._end_line()
        self._write(plain(text))

    def _dim(self, text: str) -> None:
        text = plain(text)
        self._write(f"\x1b[2m{text}\x1b[0m" if self._color else text)


def _extras(row: Json) -> Iterable[str]:
    """What comes with a reply besides its words."""
    for file in row.get("files") or ():
        yield f"  · file {file['id']}: {file['name']}, {file['size']} bytes; daycare files save {file['id']}"
    choices = [choice["label"] for choice in row.get("choices") or ()]
    if choices:
        yield f"  · answer with: {' | '.join(choices)}"
