"""The pages of doc/: no dead link, each page in the index, and each page that the program names is there."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "doc").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"\bdoc/[\w/.-]*\w")


def prose(text: str) -> str:
    """Return a page without its blocks of code, in which brackets are no links."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page as a web host makes them of its headings."""
    found: Counter[str] = Counter()
    every = set()
    for heading in re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", LINK.sub("", heading).lower()).replace(" ", "-")
        every.add(f"{plain}-{found[plain]}" if found[plain] else plain)
        found[plain] += 1
    return every


def dead_links(page: Path, text: str) -> list[str]:
    """Return the links of a page that lead nowhere."""
    dead = []
    for link in LINK.findall(prose(text)):
        target, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        file = Path(os.path.normpath(page.parent / target)) if target else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            dead.append(link)
    return dead


def sources() -> list[Path]:
    """Return every file that may name a page."""
    places = ("daycare", "plugins", "migrations", "tests", "doc")
    inner = (file for place in places for file in (ROOT / place).rglob("*"))
    kinds = {".py", ".toml", ".md", ".sql", ".json"}
    return [file for file in [*ROOT.glob("*"), *inner] if file.suffix in kinds and file.is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_of_a_page_is_dead(page: Path) -> None:
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


def test_a_dead_link_and_a_dead_anchor_are_seen() -> None:
    page = ROOT / "doc" / "index.md"
    text = "[a](use/cli.md) [b](use/nowhere.md) [c](use/cli.md#nowhere) [d](#here)\n\n# Here\n"
    assert dead_links(ROOT / "doc" / "other.md", text) == ["use/nowhere.md", "use/cli.md#nowhere", "#here"]
    assert dead_links(page, "[to the index](index.md)") == []


def test_each_page_that_a_file_names_is_there() -> None:
    named = {
        (name, str(file.relative_to(ROOT)))
        for file in sources()
        if file != Path(__file__)
        for name in NAMED.findall(file.read_text(encoding="utf-8", errors="replace"))
        if name.endswith((".md", ".json")) and not (ROOT / name).is_file()
    }
    assert sorted(named) == []


def test_the_index_says_in_a_line_what_each_page_answers() -> None:
    index = ROOT / "doc" / "index.md"
    lines = re.findall(r"^\| \[.*?\]\((.*?)\) \| (.+) \|$", index.read_text(encoding="utf-8"), re.MULTILINE)
    listed = Counter(os.path.normpath(index.parent / link) for link, _ in lines)
    assert listed == Counter(str(page) for page in PAGES if page not in {index, ROOT / "README.md"})
    assert [link for link, answer in lines if len(answer.split()) < 4] == []
