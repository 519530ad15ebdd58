"""What a field means, said once behind its type: for the schema of a tool, a command's help and the API's reference."""

from typing import Any

from msgspec import Meta


def meaning(description: str, *, metavar: str = "", option: str = "", **bounds: Any) -> Meta:
    """Return what is known of a field: its meaning without a full stop, and its bounds as of `msgspec.Meta`.

    `metavar` stands for its value in the help of a command; `option` is the command's name for it, if another one.
    """
    face = {name: value for name, value in (("metavar", metavar), ("option", option)) if value}
    return Meta(description=description, extra=face or None, **bounds)
