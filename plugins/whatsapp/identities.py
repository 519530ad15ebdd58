"""Who is who on WhatsApp. A person has a telephone number and a hidden identity (LID), and comes as either.

Here a person is their number, and nothing else: where only the hidden identity is known and no number belongs to it, it
is nobody, so that one who was let in cannot be imitated, nor met as a stranger a second time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

PHONES: Final = "s.whatsapp.net"
OLD_PHONES: Final = "c.us"
HIDDEN: Final = "lid"
GROUPS: Final = "g.us"
MINE: Final = "me"  # in a reference to a message: we sent it

Lookup = Callable[[str], str]  # the number of a hidden identity, empty if it is not known


class NotYetError(Exception):
    """Who somebody is cannot be looked up now, but later."""


@dataclass(frozen=True)
class Me:
    """The account: its number and its hidden identity."""

    phone: str = ""
    lid: str = ""


class UnknownPersonError(Exception):
    """Somebody whose number is not known."""


def person(jid: Any, other: Any, lookup: Lookup) -> str:
    """Return the number of somebody; `other` is their other identity, where the message names it.

    Raises `UnknownPersonError`.
    """
    for one in (jid, other):
        if one.Server in (PHONES, OLD_PHONES) and one.User.isdecimal():
            return str(one.User)
    for one in (jid, other):
        if one.Server == HIDDEN and one.User:
            number = lookup(one.User)
            if number.isdecimal():
                return number
    raise UnknownPersonError("no telephone number is known of the sender's hidden identity")


def user_of(text: str) -> tuple[str, str]:
    """Return user and server of an identity in text, `49151:3@s.whatsapp.net`, without its device."""
    user, _, server = text.partition("@")
    return user.partition(":")[0].partition(".")[0], server


def is_me(text: str, me: Me) -> bool:
    """Whether an identity in text is the account itself."""
    user, server = user_of(text)
    if server == HIDDEN:
        return bool(me.lid) and user == me.lid
    return bool(me.phone) and user == me.phone and server in (PHONES, OLD_PHONES)


def reference(message: str, author: str, me: Me) -> str:
    """Return how a message is referred to: its id and who wrote it, without whom it can be neither quoted nor found."""
    return f"{message}/{MINE if is_me(author, me) else '@'.join(user_of(author))}"


def referred(text: str) -> tuple[str, str]:
    """Return id and author of a reference."""
    message, _, author = text.partition("/")
    return message, author


def target(to: str) -> tuple[str, str]:
    """Return user and server of a chat as daycare names it: a number, or `...@g.us`. Raises `ValueError`."""
    user, _, server = to.partition("@")
    if server == GROUPS and user.replace("-", "").isdecimal():
        return user, GROUPS
    if not server and user.isdecimal():
        return user, PHONES
    raise ValueError("it is neither a telephone number nor a group")
