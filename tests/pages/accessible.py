"""Whether everybody can use every page: axe's rules, in both colour schemes, on a phone and at a desk."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.network.conftest import Network
from tests.pages.house import house
from tests.pages.windows import DESKTOP, PHONE, addresses, watched

SCHEMES: Final = ("light", "dark")
SIZES: Final = {"phone": PHONE, "desktop": DESKTOP}
_TAGS: Final = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def violations(browser: Browser, network: Network, where: Sequence[str], *, scheme: str, size: str) -> list[str]:
    """Return what is wrong on these pages, with all that folds opened."""
    found, axe = list[str](), Axe()
    # the page's policy lets no script in, so axe's neither
    options: dict[str, Any] = {"bypass_csp": True, "color_scheme": scheme, "size": SIZES[size]}
    with watched(browser, network, "operator", **options) as windows:
        page = windows.open("/")
        for address in where:
            windows.go(page, address)
            page.evaluate("for (const it of document.querySelectorAll('details')) it.open = true")
            for wrong in axe.run(page, options=_TAGS).response["violations"]:
                shown = ", ".join(f"{node['target'][0]}" for node in wrong["nodes"][:3])
                found.append(f"{address} ({size}, {scheme}): {wrong['id']}: {wrong['help']}: {shown}")
        return [*found, *(each for each in windows.errors if "Failed to load resource" not in each)]


def run(browser: Browser, folder: Path) -> dict[str, Any]:
    """Look at all of them; `harm` has to be empty."""
    harm, looked = list[str](), 0
    with house(folder) as network:
        where = addresses(network, "operator")
        for scheme in SCHEMES:
            for size in SIZES:
                harm += violations(browser, network, where, scheme=scheme, size=size)
                looked += len(where)
    return {"looked": looked, "harm": harm}
