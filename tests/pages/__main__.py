"""`python -m tests.pages --json`: look at every page as everybody, press everything; exit 1 when something is wrong."""

import argparse
import random
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from playwright.sync_api import Browser, sync_playwright

from tests.dashboard.conftest import launched
from tests.pages import accessible, actions, keyboard, matrix, restart, screens, scripting

Check = Callable[[Browser, Path, random.Random], dict[str, Any]]

CHECKS: Final[dict[str, Check]] = {
    "xss": scripting.run,
    "axe": lambda browser, folder, _: accessible.run(browser, folder),
    "keys": lambda browser, folder, _: keyboard.run(browser, folder),
    "restart": lambda browser, folder, _: restart.run(browser, folder),
    "matrix": lambda _, folder, __: matrix.run(folder),
    "actions": lambda browser, folder, _: actions.run(browser, folder),
    "screens": lambda browser, folder, _: screens.run(browser, folder),
}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.pages", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    parser.add_argument("--only", default=",".join(CHECKS), help=f"some of {', '.join(CHECKS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    args = parser.parse_args()
    print(f"seed {args.seed}", file=sys.stderr, flush=True)
    found: dict[str, Any] = {"seed": args.seed}
    with sync_playwright() as playwright:
        browser = launched(playwright)
        for name in args.only.split(","):
            with TemporaryDirectory() as folder:
                found[name] = CHECKS[name](browser, Path(folder), random.Random(args.seed))
            print(f"{name}: {len(found[name]['harm'])} wrong", file=sys.stderr, flush=True)
        browser.close()
    print(msgspec.json.format(msgspec.json.encode(found)).decode() if args.json else found)
    sys.exit(any(each["harm"] for name, each in found.items() if name != "seed"))


if __name__ == "__main__":
    main()
