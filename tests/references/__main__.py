"""`python -m tests.references` writes every page that is made from the code."""

from types import ModuleType
from typing import Final

from tests.references import api, commands, errors, limits, openapi, templates

PAGES: Final[dict[str, ModuleType]] = {
    "api": api,
    "openapi": openapi,
    "errors": errors,
    "commands": commands,
    "limits": limits,
    "templates": templates,
}

if __name__ == "__main__":
    for made in PAGES.values():
        made.PAGE.write_text(made.page(), encoding="utf-8")
