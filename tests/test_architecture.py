"""The map of the code is the modules' own words: packages on a page, single modules on demand.

`python -m tests.test_architecture` writes the packages into doc/contribute/modules.md;
`python -m tests.test_architecture agent store/sqlite` prints the modules of those folders, and `.` prints all of them.
The page has no line for a module: it would change in most commits, and two people's changes would meet there.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
ARCHITECTURE: Final = ROOT / "doc" / "contribute" / "architecture.md"
PAGE: Final = ROOT / "doc" / "contribute" / "modules.md"
PLACES: Final = ("daycare", "plugins")
HEAD: Final = "| package | what it is for |\n| --- | --- |\n"
LINES_MAX: Final = 150


def purpose(file: Path) -> str:
    """Return the first paragraph of a module's docstring, on one line; empty if there is none."""
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(said.split("\n\n")[0].split())


def packages() -> str:
    """Return the rows of all packages, sorted."""
    folders = sorted(file.parent for place in PLACES for file in (ROOT / place).rglob("__init__.py"))
    return "".join(f"| `{folder.relative_to(ROOT)}/` | {purpose(folder / '__init__.py')} |\n" for folder in folders)


def modules(*folders: str) -> Iterator[str]:
    """Yield a line for each module in these folders of `daycare/`, sorted."""
    inner = sorted({file for folder in folders for file in (ROOT / "daycare" / folder).rglob("*.py")})
    return (f"{file.relative_to(ROOT)}: {purpose(file)}" for file in inner)


def page() -> str:
    """Return the page as it has to be: what stands above its table is kept."""
    return PAGE.read_text(encoding="utf-8").partition(HEAD)[0] + HEAD + packages()


def test_the_page_of_packages_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.test_architecture"


@pytest.mark.parametrize("place", PLACES)
def test_each_module_says_in_a_sentence_what_it_is_for(place: str) -> None:
    silent = [
        str(file.relative_to(ROOT)) for file in (ROOT / place).rglob("*.py") if not purpose(file).endswith((".", "?"))
    ]
    assert silent == []


def test_the_modules_of_a_folder_can_be_listed() -> None:
    [line] = [line for line in modules("store") if line.startswith("daycare/store/worker.py: ")]
    assert line in set(modules(".")), "`.` is the whole product"


def test_architecture_is_a_birds_view() -> None:
    assert len(ARCHITECTURE.read_text(encoding="utf-8").splitlines()) <= LINES_MAX, "details belong in docstrings"


if __name__ == "__main__":
    if sys.argv[1:]:
        print(*modules(*sys.argv[1:]), sep="\n")
    else:
        PAGE.write_text(page(), encoding="utf-8")
