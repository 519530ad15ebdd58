"""Time zones by their IANA names."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from daycare.base.errors import InvalidError

INSTALL = "pip install --upgrade tzdata"


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone. Raises `InvalidError` ZONE_UNKNOWN."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError) as error:
        known = available_timezones()
        if known and name not in known:
            what, hint = f"unknown time zone {name[:80]!a}", "an IANA name, such as Europe/Berlin or UTC"
        else:  # the name is good: no other would be found either
            what, hint = f"reading the time zone {name[:80]!a}: there is no database of time zones", INSTALL
        raise InvalidError("ZONE_UNKNOWN", what, hint=hint) from error
