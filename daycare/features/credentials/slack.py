"""Slack says whether a bot's token is good, and what it may do: `auth.test`, which needs no scope itself."""

import re
from http import HTTPStatus
from typing import Final

import msgspec
import trio

from daycare.agent.blocks import one_line
from daycare.base.errors import ForbiddenError, UnavailableError
from daycare.features.credentials.records import CheckedCredential
from daycare.inference.http_client import ConnectError, HttpAnswer, HttpClient

CREDENTIAL_CHECK_S: Final = 10.0  # a person waits for it
IDENTITY_MAX_CHARS: Final = 200
CREDENTIAL_ANSWER_MAX_BYTES: Final = 16 * 1024  # it names a team and a user

# What says that the token is bad, and not that somebody has trouble.
_BAD: Final = (
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"),
    *("no_permission", "org_login_required", "ekm_access_denied", "access_denied", "two_factor_setup_required"),
)
SCOPES: Final = ("channels:read", "groups:read", "chat:write")  # what the tools of agents need
_SCOPES_HEADER: Final = "x-oauth-scopes"  # Slack names there what a token may do, in each answer
_is_scope: Final = re.compile(r"[a-z][a-z:._]{0,63}").fullmatch
_is_word: Final = re.compile(r"[a-z_]{1,64}").fullmatch


class CredentialRejectedError(ForbiddenError):
    """A service does not take a token."""

    http_status = HTTPStatus.UNAUTHORIZED


class _Said(msgspec.Struct, frozen=True):
    """What Slack answers; what else it says is nobody's business."""

    ok: bool
    error: str = ""
    team: str = ""
    user: str = ""


async def check(url: str, token: str) -> CheckedCredential:
    """Ask Slack. Raises `CredentialRejectedError` CREDENTIAL_REJECTED, `UnavailableError` CREDENTIAL_UNCHECKED."""
    client = HttpClient(url.rstrip("/"))
    try:
        with trio.fail_after(CREDENTIAL_CHECK_S):
            answer = await client.ask("POST", "/auth.test", {"Authorization": f"Bearer {token}"}, b"{}")
            try:
                said = await _said(answer)
            finally:
                await answer.aclose()
    except trio.TooSlowError:
        raise _unchecked(f"no answer within {CREDENTIAL_CHECK_S:g} s") from None
    except ConnectError as error:
        raise _unchecked(f"no connection: {error}") from None
    except trio.BrokenResourceError:
        raise _unchecked("the connection broke") from None
    finally:
        await client.aclose()
    if said.ok:
        return CheckedCredential(identity=_identity(said), missing=_missing(answer.headers.get(_SCOPES_HEADER)))
    why = said.error if _is_word(said.error) else "an error without a name"
    if why not in _BAD:
        raise _unchecked(f"Slack says {why}")
    raise CredentialRejectedError(
        "CREDENTIAL_REJECTED",
        f"checking a token with Slack: it is refused ({why})",
        hint="copy the bot token again from the settings of the Slack app, under OAuth & Permissions",
    )


def _identity(said: _Said) -> str:
    return one_line(f"@{said.user} in {said.team}", IDENTITY_MAX_CHARS) if said.user and said.team else ""


def _missing(told: str | None) -> tuple[str, ...]:
    """Return the scopes that the token lacks; none where Slack does not tell which it has."""
    if told is None:
        return ()
    has = {scope for each in told.split(",") if _is_scope(scope := each.strip())}
    return tuple(scope for scope in SCOPES if scope not in has)


async def _said(answer: HttpAnswer) -> _Said:
    data = b""
    while (more := await answer.read()) and len(data) <= CREDENTIAL_ANSWER_MAX_BYTES:
        data += more
    if answer.status != HTTPStatus.OK:
        raise _unchecked(f"Slack answers with status {answer.status}")
    try:
        return msgspec.json.decode(data, type=_Said)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _unchecked("the answer is not one of Slack's") from None


def _unchecked(why: str) -> UnavailableError:
    return UnavailableError(
        "CREDENTIAL_UNCHECKED",
        f"checking a token with Slack: {why}",
        hint="nothing was changed: try again later; [credentials] slack_url in config.toml says who is asked",
    )
