"""Whose a memory is: one scope for all agents of a person, another for each person or program they have let in."""

from typing import Final

from daycare.base.path import Kind

_APART: Final = (Kind.SUBUSER, Kind.APP)


def scope_of(path: str) -> str:
    """Return the scope of an agent's memories, such as `ann` or `ann/subuser/bob`.

    Helpers have their root's: what an agent finds out by a helper is its own. `path` is a stored one.
    """
    user, kind, *rest = path.removeprefix("/").split("/")
    return f"{user}/{kind}/{rest[0]}" if kind in _APART and rest else user
