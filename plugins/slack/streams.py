"""Growing answers as Slack's streams: chat.startStream, appendStream and stopStream.

A stream only grows. Where a text changes in another way, or Slack has no streams for us, the message is updated.
"""

from typing import Final

from daycare.base.bounded import Bounded
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.messenger.json_paths import text_at
from daycare_plugins.slack.client import SlackApi
from daycare_plugins.slack.places import TS
from daycare_plugins.slack.words import silent

STREAMS_MAX: Final = 1_000
TEXT_MAX_CHARS: Final = 12_000  # of one call


class SlackStreams:
    """The streams of one workspace that are open."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._open: Bounded[tuple[str, str], str] = Bounded(STREAMS_MAX)  # what was said in each so far
        self._refused = False  # Slack has no streams for this app

    async def begin(self, channel: str, thread: str, who: str, team: str, text: str) -> str:
        """Begin a stream for somebody and return its time stamp; empty where there can be none."""
        text = silent(text)
        if self._refused or not who or len(text) > TEXT_MAX_CHARS:
            return ""
        try:
            answer = await self._api.call(
                "chat.startStream",
                channel=channel,
                thread_ts=thread,
                recipient_user_id=who,
                recipient_team_id=team,
                markdown_text=text,
            )
        except (BusyError, UnavailableError):
            raise
        except DaycareError:
            self._refused = True
            return ""
        ts = text_at(answer, "ts")
        if not TS.fullmatch(ts):
            raise UnavailableError("SLACK_DOWN", "calling chat.startStream: the answer names no message")
        self._open[channel, ts] = text
        return ts

    async def grow(self, channel: str, ts: str, text: str) -> bool:
        """Show a text that has grown; return whether it was only that, and could be."""
        before, text = self._open.get((channel, ts)), silent(text)
        if before is None:
            return False
        more = text[len(before) :]
        if not text.startswith(before) or len(more) > TEXT_MAX_CHARS:
            await self.stop(channel, ts)
            return False
        if more:
            await self._api.call("chat.appendStream", channel=channel, ts=ts, markdown_text=more)
            self._open[channel, ts] = text
        return True

    async def stop(self, channel: str, ts: str) -> None:
        """End a stream, so that its message may be updated or deleted."""
        if (channel, ts) in self._open:
            await self._api.call("chat.stopStream", channel=channel, ts=ts)
            self._open.pop((channel, ts), None)
