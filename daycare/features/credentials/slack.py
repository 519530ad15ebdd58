"""Slack says whether a bot's token is good: `auth.test`, which needs no scope."""

import re
from http import HTTPStatus
from typing import Final

import msgspec
import trio

from daycare.base.errors import ForbiddenError, UnavailableError
from daycare.inference.http_client import ConnectError, HttpAnswer, HttpClient

CREDENTIAL_CHECK_S: Final = 10.0  # a person waits for it
CREDENTIAL_ANSWER_MAX_BYTES: Final = 16 * 1024  # it names a team and a user

# What says that the token is bad, and not that somebody has trouble.
_BAD: Final = (
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"),
    *("no_permission", "org_login_required", "ekm_access_denied", "access_denied", "two_factor_setup_required"),
)
_is_word: Final = re.compile(r"[a-z_]{1,64}").fullmatch


class CredentialRejectedError(ForbiddenError):
    """A service does not take a token."""

    http_status = HTTPStatus.UNAUTHORIZED


class _Said(msgspec.Struct, frozen=True):
    """What Slack answers; what else it says is nobody's business."""

    ok: bool
    error: str = ""


async def check(url: str, token: str) -> None:
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
        return
    why = said.error if _is_word(said.error) else "an error without a name"
    if why not in _BAD:
        raise _unchecked(f"Slack says {why}")
    raise CredentialRejectedError(
        "CREDENTIAL_REJECTED",
        f"checking a token with Slack: it is refused ({why})",
        hint="copy the bot token again from the settings of the Slack app, under OAuth & Permissions",
    )


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
