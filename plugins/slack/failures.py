"""What a failed call means: errors of HTTP and of Slack's Web API as ours, with no token in any of them.

The names are those that the pages of Slack's methods list. Which class one gets decides what happens to a reply, see
`Connector` in daycare/base/connector.py.
"""

import re
from typing import Final

from daycare.base.errors import (
    AwayError,
    BusyError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.messenger.http import Server

REFUSED: Final = "SLACK_REFUSED_US"  # the token or the app: an operator has to repair it
TOKEN_HINT: Final = "copy the token again from the app's settings and store it"  # noqa: S105
PACE_S: Final = 5.0  # where Slack does not say how long
SLACK: Final = Server(
    name="Slack",
    setting="base_url in [plugins.slack]",
    timeout="SLACK_TIMEOUT",
    lost="SLACK_LOST",
    url="SLACK_URL",
    away="SLACK_AWAY",
    no_name="SLACK_AWAY",
    no_proof="SLACK_AWAY",
    unreachable="SLACK_AWAY",
)

_Meaning = tuple[type[DaycareError], str, str]  # class, code, what is said of it


def _each(names: str, meaning: _Meaning) -> dict[str, _Meaning]:
    return dict.fromkeys(names.split(), meaning)


MEANINGS: Final[dict[str, _Meaning]] = {
    **_each(
        "invalid_auth not_authed account_inactive token_revoked token_expired not_allowed_token_type no_permission "
        "org_login_required ekm_access_denied access_denied team_access_not_granted two_factor_setup_required",
        (AwayError, REFUSED, "Slack does not take this token"),
    ),
    "missing_scope": (ForbiddenError, "SLACK_SCOPE", "the app has not been given the scope for this"),
    **_each("ratelimited rate_limited message_limit_exceeded", (BusyError, "SLACK_PACE", "Slack asks to wait")),
    **_each(
        "channel_not_found is_archived not_in_channel channel_is_limited_access restricted_action "
        "restricted_action_read_only_channel restricted_action_thread_only_channel restricted_action_non_threadable_"
        "channel restricted_action_thread_locked team_not_found",
        (NotFoundError, "CHAT_GONE", "the app cannot write to that channel"),
    ),
    **_each(
        "user_not_found users_not_found user_disabled user_not_visible cannot_dm_bot messages_tab_disabled "
        "invalid_user_combination slack_connect_blocked_file_type",
        (ForbiddenError, "RECIPIENT_GONE", "the app cannot write to this person"),
    ),
    **_each(
        "message_not_found cant_update_message cant_delete_message edit_window_closed no_item_specified bad_timestamp "
        "message_not_in_streaming_state message_not_owned_by_app streaming_state_conflict",
        (NotFoundError, "MESSAGE_GONE", "that message is there no longer, or is not ours"),
    ),
    **_each("thread_not_found cannot_reply_to_message", (InvalidError, "REPLY_GONE", "the thread is there no longer")),
    **_each("file_not_found file_deleted files_not_found", (NotFoundError, "FILE_GONE", "the file is there no longer")),
    **_each(
        "internal_error fatal_error service_unavailable request_timeout team_added_to_org",
        (UnavailableError, "SLACK_DOWN", "Slack is out of order"),
    ),
}
HINTS: Final = {
    "not_in_channel": "invite the app to the channel: /invite @NAME",
    "channel_not_found": "is it the id of a channel, and was the app invited there?",
    "messages_tab_disabled": "switch the app's Messages tab on: App Home in the app's settings",
    "is_archived": "the channel was archived",
}
_WORD: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


def named(error: object) -> str:
    """Return the name of an error as Slack gives it, without anything else that stands there."""
    return error if isinstance(error, str) and _WORD.fullmatch(error) else "an error without a name"


def of_name(error: object, doing: str, *, needed: object = "", retry_after_s: float | None = None) -> DaycareError:
    """Return our error for one that Slack names."""
    name = named(error)
    kind, code, said = MEANINGS.get(name, (InvalidError, "SLACK_REFUSED", "Slack does not take it"))
    hint = HINTS.get(name, TOKEN_HINT if code == REFUSED else "")
    if code == "SLACK_SCOPE":
        scope = needed if isinstance(needed, str) and re.fullmatch(r"[a-z:._,]{1,100}", needed) else "it needs"
        hint = f"give the app the scope {scope} under OAuth & Permissions, and install it again"
    wait_s = max(retry_after_s or PACE_S, 1.0) if kind is BusyError else retry_after_s
    return kind(code, f"{doing}: {said} ({name})", hint=hint, retry_after_s=wait_s)
