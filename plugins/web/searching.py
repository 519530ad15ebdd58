"""Searching the web with an engine of the owner's choice: a SearXNG of theirs, or Brave's service."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from daycare.base.errors import SetupError, UnavailableError

BRAVE: Final = "brave"
BRAVE_URL: Final = "https://api.search.brave.com/res/v1/web/search"
SEARCH_S: Final = 15.0
RESULTS_MAX: Final = 20

_DESCRIPTION_MAX_CHARS: Final = 300
_REFUSED: Final = (401, 403)
_TOO_MANY: Final = 429


class WebResult(msgspec.Struct, frozen=True):
    """One result: a page, what it is called, and what it is about."""

    url: str
    title: str = ""
    content: str = ""  # SearXNG's
    description: str = ""  # Brave's


class _SearXNG(msgspec.Struct, frozen=True):
    results: list[WebResult]


class _Brave(msgspec.Struct, frozen=True):
    web: _SearXNG = _SearXNG([])


async def search(engine: str, query: str, key: Callable[[], str | None]) -> str:
    """Return results as lines. `engine` is the address of a SearXNG, or "brave", whose `key` is looked up.

    Raises `UnavailableError`, or `SetupError` if the engine wants a key, or does not answer in JSON.
    """
    import httpx

    headers, kind = {"Accept": "application/json"}, _Brave if engine == BRAVE else _SearXNG
    if engine == BRAVE:
        headers["X-Subscription-Token"] = key() or ""
        url = f"{BRAVE_URL}?{urlencode({'q': query, 'count': RESULTS_MAX})}"
    else:
        url = f"{engine.rstrip('/')}/search?{urlencode({'q': query, 'format': 'json'})}"
    try:
        async with httpx.AsyncClient(timeout=SEARCH_S, trust_env=False) as client:
            answer = await client.get(url, headers=headers)
    except httpx.HTTPError as error:
        raise UnavailableError(
            "WEB_SEARCH", f"searching: {type(error).__name__}", hint="[plugins.web] search"
        ) from None
    if answer.status_code in _REFUSED:
        hint = "daycare keys add web" if engine == BRAVE else "formats: [html, json] in SearXNG's settings.yml"
        raise SetupError("WEB_SEARCH", f"the search engine refused with {answer.status_code}", hint=hint)
    if answer.status_code != httpx.codes.OK:
        raise UnavailableError("WEB_SEARCH", f"the search engine answered {answer.status_code}")
    try:
        found: Any = msgspec.json.decode(answer.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SetupError("WEB_SEARCH", "the search engine's answer is no JSON of results") from None
    results = (found.web if engine == BRAVE else found).results[:RESULTS_MAX]
    return "\n".join(map(_line, results)) or "nothing was found"


def _line(found: WebResult) -> str:
    about = " ".join((found.content or found.description).split())
    return f"- {' '.join(found.title.split())}\n  {found.url}\n  {about[:_DESCRIPTION_MAX_CHARS]}"
