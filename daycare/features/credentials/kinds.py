"""Which services there are, how a token of each looks, and who is asked whether it is good."""

import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from daycare.features.credentials import slack
from daycare.features.credentials.records import CheckedCredential
from daycare.settings import CredentialsSection


class CredentialKind(NamedTuple):
    """A service. `check` raises for what the service at `url` does not take. People are told the
    `shape` of a token, the `scopes` that it needs and where to `find` it.
    """

    pattern: re.Pattern[str]
    shape: str
    scopes: tuple[str, ...]
    find: str
    url: Callable[[CredentialsSection], str]
    check: Callable[[str, str], Awaitable[CheckedCredential]]


_SLACK: Final = re.compile(r"xoxb-[A-Za-z0-9-]{10,250}")

KINDS: Final = {
    "slack": CredentialKind(
        _SLACK,
        "xoxb-...",
        slack.SCOPES,
        "api.slack.com/apps, your app, OAuth & Permissions: the Bot User OAuth Token",
        lambda section: section.slack_url,
        slack.check,
    ),
}
