"""Pressed buttons: each is answered, or it spins on somebody's phone until Telegram gives up."""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import trio

from daycare_plugins.telegram.testing.server import FakeTelegram
from daycare_plugins.telegram.testing.updates import Update
from tests.planted.plugin import patience_s
from tests.telegram.campaign.report import Report

ANSWER_S: Final = 10.0  # for so long an answer may be on its way when the daemon is killed


class Presses:
    """Notes when each press is confirmed: from then on nobody but that daemon can answer it."""

    def __init__(self, server: FakeTelegram) -> None:
        self._server = server
        self._confirmed: dict[str, float] = {}
        server.queue.on_confirm.append(self._see)

    async def answered(self, killed_at: Sequence[float]) -> None:
        """Wait for the answers that may be on their way: nothing of the store says so, and stopping ends them."""
        with trio.move_on_at(max(self._confirmed.values(), default=-math.inf) + patience_s(ANSWER_S)):
            while self._unanswered(killed_at):
                await trio.sleep(0.05)

    def judge(self, killed_at: Sequence[float], report: Report) -> None:
        """Each press is answered, unless the daemon was killed right after it had confirmed it."""
        for press in self._unanswered(killed_at):
            report.find("unanswered", f"the press {press} of a button was confirmed and never answered")

    def _unanswered(self, killed_at: Sequence[float]) -> list[str]:
        answered = {call.params.get("callback_query_id") for call in self._server.called("answerCallbackQuery")}
        return [
            press
            for press, at in self._confirmed.items()
            if press not in answered and not any(at <= kill <= at + ANSWER_S for kill in killed_at)
        ]

    def _see(self, updates: list[Update]) -> None:
        for update in updates:
            query = msgspec.json.decode(update.raw).get("callback_query", {})
            if "message" in query:  # else it is malformed
                self._confirmed[query["id"]] = trio.current_time()
