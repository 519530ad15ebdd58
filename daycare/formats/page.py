"""A page of HTML as Markdown: what is worth reading of it, its links kept."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin

_NOT_READ: Final = frozenset(
    "head title script style noscript template svg iframe object form nav aside dialog".split()  # noqa: SIM905
)
_MAIN_SHARE: Final = 0.4  # of the text: then it is what the page is about
_LINKS: Final = ("http://", "https://", "mailto:")


def load() -> None:
    """Import what reads pages, as nothing can be opened later."""
    import bs4
    import markdownify

    bs4.BeautifulSoup(markdownify.markdownify("<p>a"), "html.parser")


def pieces(data: bytes, charset: str, url: str) -> Iterator[str]:
    """Yield a page with absolute links and its title above; its character set is its own word if none is given."""
    from bs4 import BeautifulSoup, Tag
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(data, "html.parser", from_encoding=charset or None)
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    base = soup.find("base", href=True)
    url = urljoin(url, str(base["href"])) if isinstance(base, Tag) else url
    for each in soup(list(_NOT_READ)):
        each.decompose()
    for link in soup("a", href=True):
        target = urljoin(url, str(link["href"]))
        if target.startswith(_LINKS):
            link["href"] = target
        else:
            del link["href"]
    body = soup.body or soup
    main = soup.find("main") or soup.find("article")
    if main is not None and len(main.get_text()) >= _MAIN_SHARE * len(body.get_text()):
        body = main
    text = MarkdownConverter(heading_style="ATX", strip=["img"], bullets="-").convert_soup(body)
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
    heading = f"# {title}\n\n" if title and f"# {title}" not in kept else ""
    yield heading + "\n".join(kept).strip()
