"""Browsers that were logged in: the cookie that says so, and how a request shows that it comes from a page of ours.

A browser sends its cookie whatever page asks for it. So a request with it that changes something has to name an origin
that is ours, and to carry what only a page of ours can read: a value that is made of the cookie's own.
"""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final

LOGIN: Final = "/v1/login"  # where a link of `daycare web` leads; nobody is known there yet
CSRF_HEADER: Final = "x-daycare-csrf"

_COOKIE: Final = "daycare_session"


def session_in(cookies: str) -> str:
    """Return the session that a header `Cookie` names, "" for none."""
    try:
        found = SimpleCookie(cookies).get(_COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def csrf_of(session: str) -> str:
    """Return what requests of a session that change something carry."""
    return hmac.digest(session.encode("utf-8", "surrogatepass"), b"csrf", hashlib.sha256).hex()


def cookie(session: str, max_age_s: int, *, secure: bool) -> str:
    """Return a header `Set-Cookie` for a session; with `max_age_s` 0 it is forgotten."""
    text = f"{_COOKIE}={session}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict"
    return f"{text}; Secure" if secure else text
