"""What goes wrong with a server, in our words: never with the password that is in a location."""

import re
from typing import Final

from daycare.base.errors import BrokenError, DaycareError, InvalidError, StoreAwayError, UnavailableError
from daycare.store.postgres.location import ServerLocation

_WRONG: Final = {  # states of what an operator has to set right
    "28P01": ("STORE_PASSWORD", "correct the name or the password in [store] location"),
    "28000": ("STORE_PASSWORD", "let the server take this account: pg_hba.conf, or its name in [store] location"),
    "3D000": ("STORE_NO_DATABASE", "make it: createdb -T template0 -E UTF8 --locale=C NAME"),
    "42501": ("STORE_FORBIDDEN", "the account needs CREATE on the database: GRANT CREATE ON DATABASE NAME TO ACCOUNT"),
}
_SAYS: Final = (  # ... before there is a state
    (re.compile(r'password authentication failed|no password supplied|role "[^"]*+" does not exist'), "28P01"),
    (re.compile(r"no pg_hba.conf entry|not permitted to log in"), "28000"),
    (re.compile(r'database "[^"]*+" does not exist'), "3D000"),
    (re.compile(r"permission denied for"), "42501"),
)
_FULL: Final = ("53100",)
_OWN_FAULT: Final = ("21", "22", "23", "42", "0A", "2F", "39", "54", "P0")  # classes of what one statement did wrong


class StatementError(BrokenError):
    """What one statement did wrong by itself: its transaction is over. `state` is the server's name for it."""

    def __init__(self, location: ServerLocation, state: str, message: str, near: str = "") -> None:
        what = f"using the database {location.shown}: {message} ({state})" + (f" in: {near}" if near else "")
        super().__init__("STORE_ERROR", what, hint="this is a defect of daycare; please report it with the log")
        self.state = state


def away(location: ServerLocation, why: str) -> StoreAwayError:
    """Return the refusal of a server that does not answer."""
    return StoreAwayError(
        "STORE_UNREACHABLE",
        f"using the database {location.shown}: {_words(why)}",
        hint="start the server, or check the network to it; daycare goes on by itself then",
    )


def refusal(location: ServerLocation, said: str, state: str = "", near: str = "") -> DaycareError:
    """Return what a refusal of the server's means; `near` is the part of the statement that it is about."""
    said = _words(said)
    state = state or next((each for pattern, each in _SAYS if pattern.search(said)), "")
    what = f"using the database {location.shown}: {said}"
    if state in _WRONG:
        code, hint = _WRONG[state]
        return BrokenError(code, what, hint=hint)
    if state == "22021":
        return InvalidError("TEXT_NUL", "storing a text: it has a NUL character", hint="leave it out")
    if state == "57014":
        return UnavailableError("STORE_LATE", what, hint="it was asked for more than it can look at in time")
    if state in _FULL:
        return StoreAwayError("DISK_FULL", what, hint="free some space on the server; daycare goes on by itself then")
    if state.startswith(_OWN_FAULT):
        return StatementError(location, state, said, near)
    return away(location, said)


def _words(said: str) -> str:
    """Return the first line of what was said."""
    return (said.strip().splitlines() or ["it said nothing"])[0].removeprefix("FATAL:").strip()
