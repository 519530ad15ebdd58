"""Talking, deciding and making an agent with nothing but keys."""

from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Locator, Page, expect

from tests.network.conftest import Network
from tests.pages.house import house
from tests.pages.windows import Watched, addresses, watched

_STEPS_MAX: Final = 400
_WHERE: Final = """() => {
  const it = document.activeElement;
  if (!it || it === document.body) return null;
  const all = [...document.querySelectorAll("*")], box = it.getBoundingClientRect(), style = getComputedStyle(it);
  const shown = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none";
  return { at: all.indexOf(it), shown, seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight,
    what: `${it.tagName.toLowerCase()} ${it.name ?? it.id ?? ""} ${(it.textContent ?? "").trim().slice(0, 30)}` };
}"""
_REACHABLE: Final = """() => [...document.querySelectorAll(
    "a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((it) => it.type !== "hidden" && it.tabIndex >= 0 && !it.disabled && it.checkVisibility()).length"""


def walked(page: Page, address: str) -> list[str]:
    """Press Tab from the start of a page to its end, and return what is wrong on the way."""
    wrong, last, steps = list[str](), -1, 0
    page.evaluate("document.activeElement?.blur(); getSelection()?.removeAllRanges()")
    wanted: int = page.evaluate(_REACHABLE)
    for steps in range(min(wanted, _STEPS_MAX)):
        page.keyboard.press("Tab")
        here: dict[str, Any] | None = page.evaluate(_WHERE)
        if here is None:
            return [*wrong, f"{address}: {steps} of {wanted} are reached"]
        if here["at"] <= last:
            return [*wrong, f"{address}: from element {last} Tab leads back to {here['what']}, {steps} of {wanted} on"]
        last = here["at"]
        wrong += [f"{address}: {here['what']} has the focus and does not show it"] if not here["shown"] else []
        wrong += [f"{address}: {here['what']} has the focus out of sight"] if not here["seen"] else []
    return wrong


def reach(page: Page, wanted: Locator) -> None:
    """Press Tab until something has the focus. Raises `AssertionError` if it does not get it."""
    for _ in range(_STEPS_MAX):
        page.keyboard.press("Tab")
        if wanted.evaluate_all("(all) => all.includes(document.activeElement)"):
            return
    raise AssertionError(f"no Tab leads to {wanted}")


def talks(windows: Watched, _: Network) -> None:
    """Say something and read the answer."""
    page = windows.open("/agents/ann/agent/scribe")
    before = page.locator(".said.assistant:not(#typing)").count()
    page.keyboard.press("/")
    page.keyboard.type("12 * 4")
    page.keyboard.press("Enter")
    expect(page.locator(".said.assistant:not(#typing)")).to_have_count(before + 1)
    expect(page.locator(".said.assistant:not(#typing)").last).to_contain_text("48")
    page.close()


def decides(windows: Watched, network: Network) -> None:
    """Approve a request."""
    page = windows.open("/approvals")
    request = page.locator("article", has_text="/ann/direct")
    reach(page, request.get_by_role("button", name="Approve", exact=True))
    page.keyboard.press("Enter")
    expect(request).to_have_count(0)
    assert "approved" in {it["state"] for it in network.locally("GET", "/v1/approvals", all=True)["approvals"]}
    page.close()


def makes(windows: Watched, _: Network) -> None:
    """Make an agent."""
    page = windows.open("/")
    reach(page, page.get_by_role("link", name="New agent"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/new-agent")
    reach(page, page.locator("#called"))
    page.keyboard.type("keyed")
    page.keyboard.press("Enter")
    page.wait_for_url("**/agents/ann/agent/keyed")
    page.close()


def run(browser: Browser, folder: Path) -> dict[str, Any]:
    """Walk everywhere, and do these three; `harm` has to be empty."""
    harm = list[str]()
    with house(folder) as network, watched(browser, network, "operator", size=(1280, 800)) as windows:
        where = addresses(network, "operator")
        page = windows.open("/")
        for address in where:
            windows.go(page, address)
            harm += walked(page, address)
        for what in (talks, decides, makes):
            try:
                what(windows, network)
            except AssertionError as error:
                harm.append(str(error)[:400])
        harm += windows.errors
    return {"walked": len(where), "harm": harm}
