"""Pictures of the pages, for the documentation: small ones, of a house with plain words."""

import base64
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page

from daycare.features.dashboard.pages.agent import TABS
from daycare.features.dashboard.routes import PAGES
from tests.pages.house import house
from tests.pages.windows import DESKTOP, PHONE, watched

FOLDER: Final = Path(__file__).parents[2] / "doc" / "screens"
LARGEST_BYTES: Final = 40_000
_HOW: Final = {  # size, colour scheme
    "phone": (PHONE, "light"),
    "desktop": (DESKTOP, "light"),
    "dark": (DESKTOP, "dark"),
}
_WEBP: Final = """async ([picture, quality]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""


def shown() -> dict[str, str]:
    """Return where to look, by the name of the picture."""
    found = {page.path.strip("/") or "agents": page.path for page in PAGES if "{" not in page.path}
    return found | {f"agent-{tab}": f"/agents/ann/direct?tab={tab}" for tab in TABS}


def run(browser: Browser, folder: Path, into: Path = FOLDER) -> dict[str, Any]:
    """Take them; `harm` are those that are too large, and errors of pages."""
    into.mkdir(parents=True, exist_ok=True)
    sizes, harm = dict[str, int](), list[str]()
    with house(folder) as network:
        for how, (size, scheme) in _HOW.items():
            with watched(browser, network, "operator", size=size, color_scheme=scheme) as windows:
                page, workshop = windows.open("/"), windows.context.new_page()
                for name, address in shown().items():
                    windows.go(page, address)
                    picture = _small(workshop, page.screenshot())
                    sizes[f"{name}-{how}.webp"] = len(picture)
                    (into / f"{name}-{how}.webp").write_bytes(picture)
                harm += windows.errors
    harm += [f"{name}: {size} bytes" for name, size in sizes.items() if size > LARGEST_BYTES]
    return {"pictures": len(sizes), "bytes": sum(sizes.values()), "harm": harm}


def _small(workshop: Page, picture: bytes) -> bytes:
    found = b""
    for quality in (0.75, 0.5, 0.3, 0.15, 0.08):
        found = base64.b64decode(workshop.evaluate(_WEBP, [base64.b64encode(picture).decode(), quality]))
        if len(found) <= LARGEST_BYTES:
            break
    return found
