"""What a failed call means: errors of HTTP and codes of the Graph API as ours, with no token in any of them.

The codes are those of Meta's page "Cloud API error codes". Which class one gets decides what happens to a reply, see
`Connector` in daycare/base/connector.py.
"""

import re
from typing import Any, Final, NamedTuple

from daycare.base.errors import (
    AwayError,
    BusyError,
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.messenger.http import Server

TOKEN: Final = re.compile(r"EA[A-Za-z0-9]{20,}|(?<=access_token=)[^\s&]+")
DESCRIPTION_MAX_CHARS: Final = 300
WINDOW_CLOSED: Final = "WINDOW_CLOSED"
REFUSED: Final = "WHATSAPP_REFUSED_US"  # token, permission, account: an operator has to repair it
NOT_SENT: Final = "NOT_SENT"
TOKEN_HINT: Final = "make a new token at Meta and store it: daycare keys add whatsapp_cloud"  # noqa: S105
ACCOUNT_HINT: Final = "look at the account in Meta's WhatsApp Manager"
META: Final = Server(
    name="Meta",
    setting="base_url in [plugins.whatsapp_cloud]",
    timeout="GRAPH_TIMEOUT",
    lost="GRAPH_LOST",
    url="GRAPH_URL",
    away="GRAPH_AWAY",
    no_name="GRAPH_AWAY",
    no_proof="GRAPH_AWAY",
    unreachable="GRAPH_AWAY",
)
PAIR_S: Final = 6.0  # one message to one person each so often, past a burst


class CodeMeaning(NamedTuple):
    """What a code stands for."""

    kind: type[DaycareError]
    code: str
    hint: str = ""
    wait_s: float | None = None
    pair: bool = False  # only this person has to wait, and nobody else


_AUTH = CodeMeaning(AwayError, REFUSED, TOKEN_HINT)
_ACCOUNT = CodeMeaning(AwayError, REFUSED, ACCOUNT_HINT)
_AWAY = CodeMeaning(AwayError, "GRAPH_AWAY")
_UNKNOWN = CodeMeaning(UnavailableError, NOT_SENT)
_WRONG = CodeMeaning(InvalidError, "WHATSAPP_REFUSED")
_MEDIA = CodeMeaning(InvalidError, "MEDIA_REFUSED")
_TEMPLATE = CodeMeaning(
    InvalidError, "TEMPLATE_REFUSED", "`template` in [plugins.whatsapp_cloud] has to be an approved one"
)
_NOBODY = CodeMeaning(ForbiddenError, "RECIPIENT_GONE")

CODES: Final[dict[int, CodeMeaning]] = {
    0: _AUTH,
    3: _AUTH,
    10: _AUTH,
    190: _AUTH,
    **dict.fromkeys(range(200, 300), _AUTH),
    368: _ACCOUNT,
    131005: _AUTH,
    131031: _ACCOUNT,
    131042: CodeMeaning(AwayError, REFUSED, "Meta could not charge the account: look at its payment settings"),
    131045: CodeMeaning(AwayError, REFUSED, "register the number again at Meta"),
    133010: CodeMeaning(AwayError, REFUSED, "register the number again at Meta"),
    4: CodeMeaning(BusyError, "WHATSAPP_PACE", wait_s=60.0),
    80007: CodeMeaning(BusyError, "WHATSAPP_PACE", wait_s=60.0),
    130429: CodeMeaning(BusyError, "WHATSAPP_PACE", wait_s=5.0),
    131048: CodeMeaning(BusyError, "WHATSAPP_PACE", ACCOUNT_HINT, wait_s=600.0),
    131056: CodeMeaning(BusyError, "WHATSAPP_PACE", wait_s=PAIR_S, pair=True),
    133016: CodeMeaning(BusyError, "WHATSAPP_PACE", wait_s=600.0),
    1: _UNKNOWN,
    131000: _UNKNOWN,
    2: _AWAY,
    131016: _AWAY,
    131057: _AWAY,
    33: CodeMeaning(
        AwayError,
        REFUSED,
        "is `phone_number_id` in [plugins.whatsapp_cloud] the number's id, and may the token use it?",
    ),
    100: _WRONG,
    131008: _WRONG,
    131009: _WRONG,
    131051: _WRONG,
    135000: _WRONG,
    131021: _NOBODY,
    131026: _NOBODY,
    131030: CodeMeaning(
        ForbiddenError, "RECIPIENT_GONE", "a test number writes only to numbers that are listed at Meta"
    ),
    130497: _NOBODY,
    130472: _NOBODY,
    131049: _NOBODY,
    131050: _NOBODY,
    131047: CodeMeaning(ConflictError, WINDOW_CLOSED),
    131052: _MEDIA,
    131053: _MEDIA,
    **dict.fromkeys((132000, 132001, 132005, 132007, 132012, 132015, 132016, 132068, 132069), _TEMPLATE),
}


class PaceError(BusyError):
    """A pace that the platform asks for; `pair` says that it concerns one person only."""

    pair = False


def described(text: str) -> str:
    """Return what Meta says on one line, without a token, and not too long."""
    return TOKEN.sub("<token>", " ".join(text.split()))[:DESCRIPTION_MAX_CHARS]


def of_code(code: int, said: str, doing: str, retry_after_s: float | None = None) -> DaycareError | None:
    """Return our error for a code of the Graph API, None for one that is not known."""
    meaning = CODES.get(code)
    if meaning is None:
        return None
    message = f"{doing}: {described(said) or 'refused'} (code {code})"
    if meaning.kind is BusyError:
        busy = PaceError(
            meaning.code, message, hint=meaning.hint, retry_after_s=max(retry_after_s or 0.0, meaning.wait_s or 1.0)
        )
        busy.pair = meaning.pair
        return busy
    return meaning.kind(meaning.code, message, hint=meaning.hint, retry_after_s=retry_after_s)


def of_answer(status: int, tree: object, doing: str, retry_after: str = "") -> DaycareError:
    """Return our error for an answer that is no success; `tree` is its body, None if that is no JSON."""
    wait_s = float(retry_after) if retry_after.isdecimal() and len(retry_after) < 6 else None
    error = tree.get("error") if isinstance(tree, dict) else None
    if isinstance(error, dict):
        code = error.get("code")
        known = of_code(code, said(error), doing, wait_s) if type(code) is int else None
        if known is not None:
            return known
        message = f"{doing}: {described(said(error))} (code {code}, HTTP {status})"
    else:
        message = f"{doing}: HTTP {status}"
    if status in (401, 403):
        return AwayError(REFUSED, message, hint=TOKEN_HINT)
    if status == 404:
        return NotFoundError("NOT_THERE", message)
    if status == 413:
        return InvalidError("FILE_TOO_LARGE", message)
    if status == 429:
        return PaceError("WHATSAPP_PACE", message, retry_after_s=wait_s or 5.0)
    if status >= 500:  # a proxy's page says nothing of whether the call went through behind it
        return UnavailableError(NOT_SENT if isinstance(error, dict) else "GRAPH_DOWN", message, retry_after_s=wait_s)
    return InvalidError("WHATSAPP_REFUSED", message)


def said(error: dict[Any, Any]) -> str:
    """Return what an error object says: its details are the better words."""
    data = error.get("error_data")
    details = data.get("details") if isinstance(data, dict) else None
    found = details or error.get("message") or error.get("title") or ""
    return found if isinstance(found, str) else ""


def surely_not_sent(error: DaycareError) -> bool:
    """Whether what failed with it has surely not arrived."""
    if isinstance(error, AwayError) or not isinstance(error, UnavailableError):
        return True
    return error.code == NOT_SENT
