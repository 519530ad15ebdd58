"""Where something is said in Slack: with a person, in a channel, in a thread; and as the target of a reply."""

import re
from typing import Final, NamedTuple

from daycare.base.errors import InvalidError

_TARGET: Final = re.compile(r"([UWCDG][A-Z0-9]{1,30})(?::(\d{1,12}\.\d{1,6}))?", re.ASCII)
TS: Final = re.compile(r"\d{1,12}\.\d{1,6}", re.ASCII)


class SlackTarget(NamedTuple):
    """Where a reply goes: a channel, or a person with whom the app talks alone, and a thread there or none."""

    where: str
    thread: str

    @property
    def private(self) -> bool:
        """Whether it is the conversation with one person."""
        return self.where[0] in "UWD"

    @property
    def is_person(self) -> bool:
        """Whether it names the person, and not the channel that Slack has for talking to them."""
        return self.where[0] in "UW"


def target_of(target: str) -> SlackTarget:
    """Return the place that `<id>` or `<id>:<thread>` names. Raises `InvalidError` SLACK_TARGET."""
    found = _TARGET.fullmatch(target)
    if found is None:
        raise InvalidError(
            "SLACK_TARGET",
            f"sending to {target[:64]!r}: it is no id of a person or a channel",
            hint="such as U012AB3CD or C012AB3CD:1712345678.000100",
        )
    return SlackTarget(found[1], found[2] or "")


class SlackPlace(NamedTuple):
    """Where something was said, in connector keys; `chat` and `within` are empty in the app's own conversation."""

    private: bool
    chat: str = ""
    within: str = ""
    reply_target: str | None = None


def place_of(connector: str, channel: str, who: str, thread: str, *, private: bool, topics: bool) -> SlackPlace:
    """Return the place of a message. What is said to the app alone is one conversation, whatever its threads.

    `thread` is that of the message, or the one that its answer begins. With `topics` each thread of a channel is a
    conversation of its own.
    """
    if private:
        return SlackPlace(private=True, reply_target=f"{who}:{thread}" if thread else None)
    key = f"{connector}:{channel}"
    if not thread:
        return SlackPlace(private=False, chat=key)
    if not topics:
        return SlackPlace(private=False, chat=key, reply_target=f"{channel}:{thread}")
    return SlackPlace(private=False, chat=f"{key}:{thread}", within=key)
