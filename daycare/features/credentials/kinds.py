"""Which services there are, how a token of each looks, and who is asked whether it is good."""

import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from daycare.features.credentials import slack
from daycare.settings import CredentialsSection


class CredentialKind(NamedTuple):
    """A service. `check` raises for what the service at `url` does not take; `shape` is told to people."""

    pattern: re.Pattern[str]
    shape: str
    url: Callable[[CredentialsSection], str]
    check: Callable[[str, str], Awaitable[None]]


_SLACK: Final = re.compile(r"xoxb-[A-Za-z0-9-]{10,250}")

KINDS: Final = {
    "slack": CredentialKind(_SLACK, "xoxb-...", lambda section: section.slack_url, slack.check),
}
