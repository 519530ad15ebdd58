"""Inbound webhooks as they are stored and shown. Times are wall-clock milliseconds, UTC."""

from enum import StrEnum
from typing import Final, Literal

import msgspec

HOOK_OLDER_HOURS: Final = 24  # how long the secret before is good, where nobody says


class HookScheme(StrEnum):
    """How a sender shows that it knows the secret."""

    GITHUB = "github"  # X-Hub-Signature-256: HMAC of the body; Gitea and Forgejo send it, too
    STANDARD = "standard"  # Standard Webhooks: HMAC of id, time and body, good for five minutes
    STRIPE = "stripe"  # Stripe-Signature: HMAC of time and body, good for five minutes
    BEARER = "bearer"  # Authorization: Bearer, the secret itself


class InboundHook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook without its secret. It goes to the agent at `path`, or out as a signal of type `signal`.

    An earlier secret opens it, too, until `older_until`. `refused_why` says why the last refused delivery was;
    `failing` counts those since one was taken, or since the daemon started.
    """

    no: int
    name: str
    user: str
    scheme: HookScheme
    path: str = ""
    signal: str = ""
    events: tuple[str, ...] = ()
    template: str = ""
    instruction: str = ""
    created_at: int = 0
    older_until: int | None = None
    accepted: int = 0
    repeated: int = 0
    ignored: int = 0
    refused: int = 0
    failing: int = 0
    accepted_at: int | None = None
    accepted_event: str = ""
    refused_at: int | None = None
    refused_why: str = ""


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a sender is told: what a delivery became, and the number of the message or signal.

    `repeated` is said of a delivery that was accepted before, with the number of that time; of what is `ignored` and of
    a `pong` nothing is kept.
    """

    state: Literal["accepted", "repeated", "ignored", "pong"]
    message: int = 0
    signal: int = 0


class HookNews(msgspec.Struct):
    """Webhooks that a commit has added, changed, given another secret, or removed, by what was done."""

    done: list[tuple[Literal["added", "changed", "rotated", "removed"], InboundHook]] = []  # msgspec gives each its own
