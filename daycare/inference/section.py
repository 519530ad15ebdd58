"""What a `[providers.NAME]` section of a model server may hold: checked when the daemon starts."""

from typing import Any
from urllib.parse import urlsplit

from daycare.base.errors import InvalidError
from daycare.plugin import ProviderConfig


def extra_fields(config: ProviderConfig) -> dict[str, Any]:
    """Return the option `body`: fields added to each request. Raises `InvalidError` for any other option."""
    unknown = config.options.keys() - {"body"}
    body = config.options.get("body", {})
    if unknown or not isinstance(body, dict):
        raise InvalidError(
            "CONFIG_INVALID",
            f"[providers.{config.name}] has an option that kind {config.kind} cannot use: {sorted(unknown) or 'body'}",
            hint="keep `kind`, `base_url` and `body` (a table of fields added to each request)",
        )
    return body


def checked_url(name: str, url: str) -> tuple[str, str]:
    """Return the URL without slash at its end, and its host. Raises `InvalidError`."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        parts, valid = urlsplit(""), False
    why = ""
    if not url:
        why = "is missing"
    elif not valid:
        why = "is not an http or https URL"
    elif parts.username or parts.password:
        why = "holds a password, which does not belong in a file of settings"
    if why:
        raise InvalidError(
            "BASE_URL_INVALID",
            f"The base_url of provider {name} {why}",
            hint=f'set base_url = "http://127.0.0.1:11434/v1", say, in [providers.{name}] of config.toml',
        )
    return url.rstrip("/"), parts.hostname or ""
