"""The description that a daemon serves at `/v1/openapi.json`, for those who make a client without one at hand.

A line holds one operation or one schema, so that a difference shows which of them has changed.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from daycare.api.openapi import document
from tests.references.api import routes

PAGE: Final = Path(__file__).parents[2] / "doc" / "extend" / "openapi.json"
_DEEP: Final = ("paths", "components", "schemas", "responses")


def page() -> str:
    """Return the document."""
    return _lines(document(routes()), "") + "\n"


def _lines(found: dict[str, Any], indent: str) -> str:
    inner = [
        f'{indent} "{name}": {_lines(value, indent + " ") if _is_deep(name) else msgspec.json.encode(value).decode()}'
        for name, value in found.items()
    ]
    return "{\n" + ",\n".join(inner) + f"\n{indent}" + "}"


def _is_deep(name: str) -> bool:
    return name in _DEEP or name.startswith("/")
