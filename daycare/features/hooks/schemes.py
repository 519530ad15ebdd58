"""How deliveries are signed, what each is called, and what it tells of: by GitHub, Stripe, Standard Webhooks, a bearer.

https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
https://docs.stripe.com/webhooks#verify-manually
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from daycare.base.errors import InvalidError
from daycare.features.hooks.payload import opened
from daycare.features.hooks.records import HookScheme

HOOK_TOLERANCE_S: Final = 300.0  # between the sender's clock and ours, as Standard Webhooks has it
HOOK_SECRET_MIN_CHARS: Final = 16  # a shorter one can be guessed
HOOK_SECRET_MAX_CHARS: Final = 200
HOOK_SIGNATURES_MAX: Final = 8  # looked at of one delivery; a sender that rotates its secret sends two

_BYTES: Final = 32
_WHSEC: Final = "whsec_"
_KEY_MIN_BYTES: Final = 16
_TIME_MAX_CHARS: Final = 12
_ACTION_MAX_CHARS: Final = 64

Headers = Mapping[str, str]  # names in lower case


def new_secret(scheme: HookScheme) -> str:
    """Return a secret that nobody can guess, in the form that senders of a scheme take."""
    if scheme is HookScheme.STANDARD:
        return _WHSEC + base64.b64encode(secrets.token_bytes(_BYTES)).decode()
    return secrets.token_urlsafe(_BYTES)


def check_secret(scheme: HookScheme, text: str) -> str:
    """Return a secret that a sender has given. Raises `InvalidError` HOOK_SECRET, which does not show it."""
    wrong = ""
    if not HOOK_SECRET_MIN_CHARS <= len(text) <= HOOK_SECRET_MAX_CHARS:
        wrong = f"it has {len(text)} characters, expected {HOOK_SECRET_MIN_CHARS} to {HOOK_SECRET_MAX_CHARS}"
    elif not (text.isascii() and text.isprintable() and text == text.strip()):
        wrong = "expected printable ASCII without spaces around it"
    elif scheme is HookScheme.STANDARD and len(_key(scheme, text)) < _KEY_MIN_BYTES:
        wrong = f"expected {_WHSEC} and at least {_KEY_MIN_BYTES} bytes in base64"
    if wrong:
        hint = "leave it out: then a good one is made and shown"
        raise InvalidError("HOOK_SECRET", f"taking a secret of a webhook: {wrong}", hint=hint)
    return text


def is_genuine(scheme: HookScheme, known: Sequence[str], headers: Headers, body: bytes) -> bool:
    """Return whether a sender knows one of some secrets. It takes as long whichever it is, and if it is none."""
    signed, claims = _claimed(scheme, headers, body)
    found = False
    for secret in known:
        digest = hmac.new(_key(scheme, secret), signed, hashlib.sha256).digest()  # for a bearer, too: as it takes time
        expected = _expected(scheme, secret, digest).encode()
        for claim in claims:
            found |= hmac.compare_digest(expected, claim.encode(errors="replace"))
    return found


def is_fresh(scheme: HookScheme, headers: Headers, now_s: float) -> bool:
    """Return whether a genuine delivery was signed just now, where its scheme says when."""
    if scheme not in (HookScheme.STANDARD, HookScheme.STRIPE):
        return True
    text = _standard(headers, "timestamp") if scheme is HookScheme.STANDARD else _stripe(headers, "t", "")[0]
    if not (text.isascii() and text.isdigit() and len(text) <= _TIME_MAX_CHARS):
        return False
    return abs(now_s - int(text)) <= HOOK_TOLERANCE_S


def delivery_of(scheme: HookScheme, headers: Headers, payload: Any) -> str:
    """Return what a sender calls a delivery, also when it sends it again; empty if it does not say."""
    match scheme:
        case HookScheme.GITHUB:
            return headers.get("x-github-delivery", "")
        case HookScheme.STANDARD:
            return _standard(headers, "id")
        case HookScheme.STRIPE:
            found = opened(payload.get("id")) if isinstance(payload, dict) else None
            return found if isinstance(found, str) else ""
        case HookScheme.BEARER:
            return headers.get("idempotency-key", "")


def event_of(headers: Headers, payload: Any) -> str:
    """Return what happened as its sender calls it: `issues.opened`, `invoice.paid`; empty if it does not say."""
    inside = payload if isinstance(payload, dict) else {}
    event = headers.get("x-github-event") or opened(inside.get("type")) or opened(inside.get("event"))
    if not isinstance(event, str):
        return ""
    action = opened(inside.get("action")) if "x-github-event" in headers else None
    return f"{event}.{action[:_ACTION_MAX_CHARS]}" if isinstance(action, str) and action else event


def signed(scheme: HookScheme, secret: str, body: bytes, *, delivery: str, event: str, now_s: float) -> dict[str, str]:
    """Return the headers with which a sender of a scheme would deliver a body."""
    headers = {"content-type": "application/json"}
    match scheme:
        case HookScheme.GITHUB:
            headers |= {"x-github-delivery": delivery, "x-github-event": event}
            name = "x-hub-signature-256"
        case HookScheme.STANDARD:
            headers |= {"webhook-id": delivery, "webhook-timestamp": str(int(now_s))}
            name = "webhook-signature"
        case HookScheme.STRIPE:
            headers |= {"stripe-signature": f"t={int(now_s)}"}
            name = "stripe-signature"
        case HookScheme.BEARER:
            return headers | {"idempotency-key": delivery, "authorization": f"Bearer {secret}"}
    content, _ = _claimed(scheme, headers, body)
    digest = hmac.new(_key(scheme, secret), content, hashlib.sha256).digest()
    prefix = {HookScheme.STANDARD: "v1,", HookScheme.STRIPE: f"t={int(now_s)},v1="}.get(scheme, "")
    return headers | {name: prefix + _expected(scheme, secret, digest)}


def _claimed(scheme: HookScheme, headers: Headers, body: bytes) -> tuple[bytes, list[str]]:
    """Return what is signed, and the signatures or secrets that came with it."""
    match scheme:
        case HookScheme.GITHUB:
            return body, [headers.get("x-hub-signature-256", "")]
        case HookScheme.STANDARD:
            content = f"{_standard(headers, 'id')}.{_standard(headers, 'timestamp')}.".encode(errors="replace") + body
            several = _standard(headers, "signature").split(maxsplit=HOOK_SIGNATURES_MAX)[:HOOK_SIGNATURES_MAX]
            return content, [each.removeprefix("v1,") for each in several if each.startswith("v1,")]
        case HookScheme.STRIPE:
            content = f"{_stripe(headers, 't', '')[0]}.".encode(errors="replace") + body
            return content, _stripe(headers, "v1")
        case HookScheme.BEARER:
            kind, _, text = headers.get("authorization", "").partition(" ")
            return body, [text.strip()] if kind.lower() == "bearer" else []


def _expected(scheme: HookScheme, secret: str, digest: bytes) -> str:
    match scheme:
        case HookScheme.GITHUB:
            return f"sha256={digest.hex()}"
        case HookScheme.STANDARD:
            return base64.b64encode(digest).decode()
        case HookScheme.STRIPE:
            return digest.hex()
        case HookScheme.BEARER:
            return secret


def _key(scheme: HookScheme, secret: str) -> bytes:
    if scheme is not HookScheme.STANDARD:
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_WHSEC), validate=True)
    except binascii.Error:
        return b""


def _standard(headers: Headers, name: str) -> str:
    """Return a header of Standard Webhooks; senders that are older than the standard say `svix-`."""
    return headers.get(f"webhook-{name}") or headers.get(f"svix-{name}", "")


def _stripe(headers: Headers, name: str, *otherwise: str) -> list[str]:
    """Return what `Stripe-Signature` says under a name, which may stand in it several times."""
    parts = (each.strip().partition("=") for each in headers.get("stripe-signature", "").split(","))
    found = [value for key, _, value in parts if key == name][:HOOK_SIGNATURES_MAX]
    return found or list(otherwise)
