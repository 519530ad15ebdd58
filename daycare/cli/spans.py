"""Lengths of time as people write them on a command line."""

import re
from typing import Final

from daycare.base.errors import InvalidError

_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def read_seconds(text: str, option: str) -> float:
    """Return the seconds of a time such as 90s, 30m, 2h or 3d. Raises `InvalidError` USAGE naming the option."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise InvalidError("USAGE", f"read {option} {text}: expected a time such as 90s, 30m, 2h or 3d")
    return float(found[1]) * _UNITS[found[2]]
