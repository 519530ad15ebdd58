"""Kills the daemon at a named moment: at a commit, at a moment of a call to Telegram, or while the model is asked."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from daycare.testing.daemon_process import DaemonProcess
from daycare.testing.model_server import last_user_text
from daycare_plugins.telegram.testing import server as telegram
from tests.telegram.campaign.stage import Stage

WATCHED: Final = "tests.telegram.campaign.watched"


@dataclass(frozen=True)
class Commit:
    """Before or after the first commit that changes what a query returns."""

    side: Literal["before", "after"]
    when: str


@dataclass(frozen=True)
class Call:
    """At a moment of a call to Telegram: it has arrived and nothing is done, it is done, its answer is sent.

    Only one counts whose text has these words; what the bot only shows meanwhile does not.
    """

    moment: telegram.Moment
    method: str = "sendMessage"
    words: str = ""


@dataclass(frozen=True)
class Asked:
    """The model has a request whose last message of a user has these words, and has not answered."""

    words: str = ""


Point = Commit | Call | Asked


class Killer:
    """Starts daemons that die at a point. It must see all that the model is asked, and passes it on."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._point: Point | None = None
        self._skip = 0
        stage.server.on_call.append(self._called)

    def start(self, point: Point | None, skip: int = 0) -> DaemonProcess:
        """Start a daemon that dies at this point, after so many others like it; a commit is always the first."""
        self._point, self._skip = point, skip
        if isinstance(point, Commit):
            environment = {"DAYCARE_KILL_WHEN": point.when, "DAYCARE_KILL_AT": point.side}
            return self._stage.start(module=WATCHED, environment=environment)
        return self._stage.start()

    def disarm(self) -> None:
        """Let the daemon live, unless it dies at a commit."""
        self._point = None

    def asked(self, body: dict[str, Any]) -> None:
        """Take note that the model is asked."""
        if isinstance(self._point, Asked) and self._point.words in last_user_text(body):
            self._hit()

    def _called(self, call: telegram.BotCall, moment: telegram.Moment) -> None:
        point = self._point
        if not isinstance(point, Call) or (call.method, moment) != (point.method, point.moment):
            return
        if point.words in str(call.params.get("text", "")):
            self._hit()

    def _hit(self) -> None:
        if self._skip:
            self._skip -= 1
            return
        self._point = None
        if self._stage.process is not None:
            self._stage.process.hit()
