"""What a signal is called, and which patterns of subscriptions fit it.

    type    = segment (":" segment)*          segment: characters of a-z 0-9 _ - . /
    pattern = part (":" part)*                part: a segment, or "*", which fits exactly one

A path is a segment, so `agent:*:idle` fits `agent:/ann/direct:idle`.
"""

import re
from typing import Final

from daycare.base.errors import InvalidError

SIGNAL_TYPE_MAX_CHARS: Final = 320  # the longest path between two words
SIGNAL_SEGMENTS_MAX: Final = 8

DAEMON: Final = "agent"  # the first segment of what the daemon tells of agents; nobody else may send it
IDLE: Final = "idle"
WAKE: Final = "wake"
ANY: Final = "*"
SENDER: Final = "/system/signals"  # of what a person sent: a path is no connector's key
HEART: Final = "/system/heartbeat"

_is_segment: Final = re.compile(r"[a-z0-9_\-./]+").fullmatch


def check_type(text: str) -> str:
    """Return `text` if it names a signal that somebody may send. Raises `InvalidError` SIGNAL_TYPE."""
    _check(text, "a signal's type", joker=False)
    if text.partition(":")[0] == DAEMON:
        raise _wrong(text, f"a signal's type: {DAEMON}: is the daemon's own", "begin with another word: work:/ann:done")
    return text


def check_pattern(text: str) -> str:
    """Return `text` if it is a pattern of types. Raises `InvalidError` SIGNAL_TYPE."""
    return _check(text, "a pattern of signals", joker=True)


def fits(pattern: str, type_: str) -> bool:
    """Return whether a pattern names a signal's type."""
    parts, segments = pattern.split(":"), type_.split(":")
    return len(parts) == len(segments) and all(
        part in (ANY, segment) for part, segment in zip(parts, segments, strict=True)
    )


def life_of(path: str, what: str) -> str:
    """Return the type of what the daemon tells of an agent: `agent:/ann/direct:idle`."""
    return f"{DAEMON}:{path}:{what}"


def tells_of_life(pattern: str) -> bool:
    """Return whether a pattern can name what the daemon tells of agents."""
    parts = pattern.split(":")
    return len(parts) == 3 and parts[0] in (ANY, DAEMON) and parts[2] in (ANY, IDLE, WAKE)


def _check(text: str, what: str, *, joker: bool) -> str:
    if len(text) > SIGNAL_TYPE_MAX_CHARS:
        raise _wrong(text, f"{what}: it has {len(text)} characters, {SIGNAL_TYPE_MAX_CHARS} at most", "deploy:done")
    segments = text.split(":")
    if len(segments) > SIGNAL_SEGMENTS_MAX:
        raise _wrong(text, f"{what}: it has {len(segments)} segments, {SIGNAL_SEGMENTS_MAX} at most", "deploy:done")
    for segment in segments:
        if not _is_segment(segment) and not (joker and segment == ANY):
            star = ", or * for any one" if joker else ""
            expected = f"expected segments of a-z, 0-9, _ - . and /{star}, with : between them"
            raise _wrong(text, f"{what}: {expected}", "agent:*:idle" if joker else "deploy:done")
    return text


def _wrong(text: str, what: str, hint: str) -> InvalidError:
    return InvalidError("SIGNAL_TYPE", f"reading {text[:80]!a} as {what}", hint=hint)
