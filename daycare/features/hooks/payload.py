"""What a delivery says. Of a long body only what is asked for becomes values.

Making values of 20 MB keeps the daemon busy for half a second, also from another thread, as the decoder lets no other
one run meanwhile. Looking over it takes a tenth of that.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from daycare.base.errors import InvalidError

HOOK_FIELDS_MAX: Final = 100  # of a form
HOOK_READ_AT_ONCE_BYTES: Final = 256 * 1024  # of a body: some 3 ms

_FORM: Final = "application/x-www-form-urlencoded"
_open = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw] | str | int | float | bool | None).decode


def read_payload(headers: Mapping[str, str], body: bytes) -> tuple[Any, str]:
    """Return what a delivery says, its parts for `opened`, and the same as JSON for people.

    Raises `InvalidError` HOOK_PAYLOAD.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == _FORM and not body.lstrip().startswith((b"{", b"[")):  # that is curl, which says so of anything
            form = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=HOOK_FIELDS_MAX))
            body = form["payload"].encode() if "payload" in form else msgspec.json.encode(form)
        body = body or b"{}"
        if len(body) > HOOK_READ_AT_ONCE_BYTES:
            return _open(body), body.decode()
        return msgspec.json.decode(body), msgspec.json.format(body, indent=2).decode()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else "it is no JSON that can be read"
        raise InvalidError(
            "HOOK_PAYLOAD", f"deliver to a webhook: {why}", hint="send application/json, or a form with payload="
        ) from None


def opened(part: Any) -> Any:
    """Return a part of what a delivery says as a value, whose own parts may be closed again."""
    return _open(part) if isinstance(part, msgspec.Raw) else part
