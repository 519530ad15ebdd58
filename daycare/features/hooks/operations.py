"""What can be asked about webhooks."""

from typing import Annotated, Any, Final

import msgspec

from daycare.api.operations import Operation
from daycare.base.meaning import meaning
from daycare.features.hooks.records import HOOK_OLDER_HOURS, HookScheme

SECRET_MAX_CHARS: Final = 200

HookName = Annotated[str, meaning("What it is called, also in its address", metavar="NAME", max_length=64)]

Secret = Annotated[
    str, meaning("The secret that its sender has made; without it one is made and shown", max_length=SECRET_MAX_CHARS)
]


class AddHook(Operation, frozen=True, kw_only=True):
    """Make an address where a program outside, such as GitHub, may deliver what happened. Its secret is shown once.

    It goes to one agent, or out as a signal. What comes is data of others: an agent that has read it asks before it
    does something that lasts.
    """

    ROUTE = "POST /v1/hooks"
    STATUS = 201
    name: HookName
    to: Annotated[str, meaning("The agent that it goes to", metavar="PATH")] = ""
    signal: Annotated[str, meaning("The signal that it sends instead", metavar="TYPE")] = ""
    scheme: Annotated[
        HookScheme,
        meaning("How its sender signs: github, stripe, standard (Standard Webhooks), bearer", metavar="HOW"),
    ] = HookScheme.STANDARD
    events: Annotated[
        tuple[str, ...], meaning("Only these events; issues is issues.opened, too. All without it", metavar="A,B")
    ] = ()
    template: Annotated[
        str, meaning("Makes the text: {{ issue.title }}; else the event and all of the payload", metavar="TEXT")
    ] = ""
    instruction: Annotated[str, meaning("What the agent is to do with what comes, in your words", metavar="TEXT")] = ""
    user: Annotated[str, meaning("Whose it is; without it the agent's user, or the operator", metavar="ID")] = ""
    secret: Secret = ""


class ListHooks(Operation, frozen=True, kw_only=True):
    """List webhooks: where each goes, when something was taken last, and what was refused."""

    ROUTE = "GET /v1/hooks"
    user: Annotated[str | None, meaning("Only this user's", metavar="ID")] = None


class RemoveHook(Operation, frozen=True, kw_only=True):
    """Remove a webhook and its secret. Its sender is refused from now on."""

    ROUTE = "DELETE /v1/hooks"
    name: HookName


class ShowHook(Operation, frozen=True, kw_only=True):
    """Show one webhook with its template and counts; its secret is never shown again."""

    ROUTE = "GET /v1/hook"
    name: HookName


class RotateHook(Operation, frozen=True, kw_only=True):
    """Give a webhook another secret, shown once. The earlier one is good for some hours more."""

    ROUTE = "POST /v1/hook/rotate"
    name: HookName
    hours: Annotated[int, meaning("How long the earlier one is good; 0: not any more", metavar="N", ge=0, le=168)] = (
        HOOK_OLDER_HOURS
    )
    secret: Secret = ""


class EditHook(Operation, frozen=True, kw_only=True):
    """Change what is given of a webhook; its address and counts stay, its secret unless another is asked for.

    To go to an agent takes the place of a signal, and the other way round.
    """

    ROUTE = "PATCH /v1/hook"
    QUERY = ("name",)
    name: HookName
    to: Annotated[str | None, meaning("The agent that it goes to from now on", metavar="PATH")] = None
    signal: Annotated[str | None, meaning("The signal that it sends instead", metavar="TYPE")] = None
    scheme: Annotated[
        HookScheme | None,
        meaning("How its sender signs: github, stripe, standard (Standard Webhooks), bearer", metavar="HOW"),
    ] = None
    events: Annotated[tuple[str, ...] | None, meaning("Only these events; all for none", metavar="A,B")] = None
    template: Annotated[
        str | None, meaning("Makes the text; empty: the event and all of the payload", metavar="TEXT")
    ] = None
    instruction: Annotated[
        str | None, meaning("What the agent is to do with what comes; empty: nothing is said", metavar="TEXT")
    ] = None
    user: Annotated[str | None, meaning("Whose signal it sends; an agent says it by itself", metavar="ID")] = None
    new_secret: Annotated[
        bool, meaning("Make another secret and show it; the earlier one is good for 24 hours more")
    ] = False
    secret: Secret = ""


class TryHook(Operation, frozen=True, kw_only=True):
    """Sign a payload as the sender of a webhook would, and take it as any delivery is taken."""

    ROUTE = "POST /v1/hook/test"
    name: HookName
    event: Annotated[
        str, meaning("What happened; without it the first event that it takes", metavar="EVENT", max_length=100)
    ] = ""
    payload: Annotated[dict[str, Any], meaning("What it brings; a short example without it")] = msgspec.field(
        default_factory=dict
    )


class MadeHook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook that was just made or has another secret: where its sender delivers, and with which secret."""

    name: str
    user: str
    scheme: HookScheme
    route: str
    secret: str
    older_until: int | None = None
