"""What can be asked about tokens of the API."""

from typing import Annotated, Final

import msgspec

from daycare.api.callers import May
from daycare.api.operations import Operation
from daycare.base.meaning import meaning

API_CLOSED: Final = "API_CLOSED"  # the code of a refusal: no address is set at which a browser could reach it

TokenName = Annotated[str, meaning("What it is called in lists and logs", metavar="NAME", max_length=64)]

Paths = Annotated[
    str,
    meaning("The agents it is for, such as /ann/agent/scribe/**; all of the person's without it", metavar="PATTERN"),
]
Days = Annotated[int, meaning("After how many days it expires; never without it", metavar="N", ge=1, le=3_650)]
Whose = Annotated[str, meaning("Whose it is; the operator's without it", metavar="ID", option="--user")]


class AddToken(Operation, frozen=True, kw_only=True):
    """Make a token with which a program may use the API over the network. It is shown once.

    A person's token does what that person may, with their own agents, one to approve only decides what these ask for;
    an operator's does all, one to read changes nothing. One to speak is for a program that several people use: with it,
    it speaks OpenAI's protocol for those whom it names. With paths it is for those of the person's agents only.
    """

    ROUTE = "POST /v1/tokens"
    STATUS = 201
    name: TokenName
    may: Annotated[May, meaning("What it is good for: operator, read, person, approve or speak", metavar="WHAT")] = (
        May.PERSON
    )
    user: Whose | None = None
    paths: Paths = ""
    days: Days | None = None


class ListTokens(Operation, frozen=True, kw_only=True):
    """List tokens: whose they are, what they may, when and from where they were used last."""

    ROUTE = "GET /v1/tokens"


class RevokeToken(Operation, frozen=True, kw_only=True):
    """Let a token open nothing from now on. What is open with it ends at once."""

    ROUTE = "DELETE /v1/tokens"
    name: TokenName


class MadeToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was just made; `token` is what a program sends as `Authorization: Bearer ...`."""

    name: str
    user: str
    may: May
    paths: str
    expires_at: int | None
    token: str


class LinkBrowser(Operation, frozen=True, kw_only=True):
    """Make a link that logs a browser in: once, and within five minutes."""

    ROUTE = "POST /v1/browsers"
    STATUS = 201
    user: Whose | None = None
    may: Annotated[May | None, meaning("What it may; without it all that the user may", metavar="WHAT")] = None


class LogOutBrowsers(Operation, frozen=True, kw_only=True):
    """Log all browsers out, at once."""

    ROUTE = "DELETE /v1/browsers"


class BrowserLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link for a browser, good once."""

    url: str
    user: str
    may: May
    expires_in_s: float
