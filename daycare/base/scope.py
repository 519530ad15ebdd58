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


def is_apart(path: str, user: str) -> bool:
    """Return whether an agent is of a person or program that its user has let in: they share no memory with that."""
    return scope_of(path) != user


def is_subusers(path: str) -> bool:
    """Return whether an agent is of a person whom its user has let in: that user does not read their memory."""
    return f"/{Kind.SUBUSER}/" in scope_of(path)


def user_in(address: str, otherwise: str = "") -> str:
    """Return whose agents a path or a pattern of paths names, as text; `otherwise` for what is none."""
    if not address.startswith("/"):
        return otherwise
    user, *below = address.removeprefix("/").split("/")
    return below[1] if len(below) > 1 and below[0] == Kind.SUBUSER else user
