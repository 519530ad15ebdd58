"""Whether words of people and models can become more than words: by what is stored, and by whatever the API may say."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from playwright.sync_api import Browser, Error, Page, Route, expect

from daycare.features.dashboard.visit import Visit
from tests.network.conftest import Network
from tests.pages.corpus import CORPUS
from tests.pages.house import house, saying
from tests.pages.windows import Watched, addresses, watched

SLICE: Final = 6  # rounds of the campaign; one is enough to meet each place
_CHOSEN: Final = re.compile(r"[a-z][a-z0-9_.]{0,23}")  # what a page goes by: states, kinds, names of routes
_WILD: Final = (
    *("script", "iframe", "frame", "object", "embed", "applet", "base", "link", "meta", "style", "math", "portal"),
    *("template", "audio", "video", "marquee", "area", "bgsound", "plaintext", "svg script", "svg use", "svg animate"),
    *("svg set", "svg image", "svg foreignObject"),
)
_FOUND: Final = (Path(__file__).parent / "markup.js").read_text().split("\n", 1)[1]


class Poison:
    """Puts hostile words behind each text that the API answers, but for those that a page goes by."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.places: set[str] = set()

    def into(self, value: Any, place: str = "") -> Any:
        """Return a value with them."""
        if isinstance(value, dict):
            return {name: self.into(each, f"{place}.{name}") for name, each in value.items()}
        if isinstance(value, list):
            return [self.into(each, place) for each in value]
        if not isinstance(value, str) or (_CHOSEN.fullmatch(value) and not place.endswith(("name", "text"))):
            return value
        self.places.add(place)
        return value + self._rng.choice(CORPUS)

    @contextmanager
    def given(self) -> Iterator[None]:
        """Give it to the pages that are made on the server."""
        ask = Visit.get

        async def get(visit: Visit, route: str, **query: Any) -> Any:
            return self.into(await ask(visit, route, **query), route)

        with patch.object(Visit, "get", get):
            yield

    def handle(self, route: Route) -> None:
        """Give it to what a page asks for by itself."""
        if route.request.method != "GET" or "/v1/events" in route.request.url or route.request.is_navigation_request():
            route.fallback()
            return
        answer = route.fetch()
        if "json" not in answer.headers.get("content-type", ""):
            route.fulfill(response=answer)
            return
        route.fulfill(response=answer, body=json.dumps(self.into(answer.json(), "browser")))


def stored(browser: Browser, network: Network) -> dict[str, Any]:
    """Look at every page of a house whose words are hostile, while more are said."""
    return _looked(browser, network)


def answered(
    browser: Browser, network: Network, rng: Random, rounds: int, *, till_harm: bool = False
) -> dict[str, Any]:
    """Look at every page while each text that the API answers is hostile, or only up to one that does harm."""
    poison = Poison(rng)
    with poison.given():
        seen = [_looked(browser, network, poison, till_harm=till_harm) for _ in range(rounds)]
    harm = [what for each in seen for what in each["harm"]]
    return {"opened": sum(each["opened"] for each in seen), "places": len(poison.places), "harm": harm}


def _looked(
    browser: Browser, network: Network, poison: Poison | None = None, *, till_harm: bool = False
) -> dict[str, Any]:
    markup, where = list[str](), addresses(network, "operator")
    with watched(browser, network, "operator") as windows:
        if poison is not None:
            windows.context.route("**/v1/**", poison.handle)
        page = windows.open("/")
        for address in where:
            markup += [f"{address}: {each}" for each in _seen(windows, page, address)]
            if till_harm and (markup or windows.harm):
                break
        if poison is None:
            windows.go(page, "/agents/ann/direct")
            for text in CORPUS[:: len(CORPUS) // 6]:
                network.locally("POST", "/v1/messages", {"text": f"remember that {text}", "wait_s": 20})
            network.locally("POST", "/v1/messages", {"text": "that was all", "wait_s": 20})
            expect(page.locator("#main").get_by_text("that was all").first).to_be_visible()
            markup += [f"live: {each}" for each in _markup(page)]
        # what a page asks for by a name that is none is not there
        wrong = [each for each in windows.errors if poison is None or "status of 40" not in each]
        return {"opened": len(where), "harm": sorted({*markup, *windows.harm, *wrong})}


def _seen(windows: Watched, page: Page, address: str) -> list[str]:
    try:
        windows.go(page, address)
        return _markup(page)
    except Error as error:  # something has led the window elsewhere
        return [error.message.splitlines()[0]]


def _markup(page: Page) -> list[str]:
    found: list[str] = page.evaluate(_FOUND, ", ".join(_WILD))
    return found


def run(browser: Browser, folder: Path, rng: Random, *, rounds: int = SLICE) -> dict[str, Any]:
    """Do both; `harm` has to be empty."""
    texts = list(CORPUS)
    rng.shuffle(texts)
    with house(folder, saying(tuple(texts))) as network:
        for at in range(0, len(texts), 20):
            said = "\n\n".join(texts[at : at + 20])
            network.locally("POST", "/v1/messages", {"text": said, "wait_s": 20})
        kept, told = stored(browser, network), answered(browser, network, rng, rounds)
    return {
        "strings": len(texts),
        "opened": kept["opened"] + told["opened"],
        "places": told["places"],
        "harm": [*kept["harm"], *told["harm"]],
    }
