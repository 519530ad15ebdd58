"""A page as text that a model reads: Markdown of what is worth reading, its links kept.

Run as a program, in a process of its own with bounds: a page may be made to harm whoever takes it apart.
"""

import json
import resource
import sys
from typing import Final
from urllib.parse import urljoin

import trio

from daycare.base.errors import InvalidError
from daycare_plugins.web.fetching import WebPage

READ_S: Final = 20.0  # of a large page; most take less than one
READ_MEMORY_BYTES: Final = 1024 * 1024 * 1024  # of addresses; a page of 4 MiB takes 300 MB when taken apart
READ_MAX_CHARS: Final = 200_000  # of the text; the rest is cut

_HTML: Final = ("text/html", "application/xhtml+xml")
_NOT_READ: Final = frozenset(
    "head title script style noscript template svg iframe object form nav aside dialog".split()  # noqa: SIM905
)
_MAIN_SHARE: Final = 0.4  # of the text: then it is what the page is about
_LINKS: Final = ("http://", "https://", "mailto:")


async def text_of(page: WebPage) -> str:
    """Return what a page says. Raises `InvalidError` WEB_UNREADABLE for one that cannot be taken apart."""
    if page.media_type not in _HTML:
        return decoded(page)[:READ_MAX_CHARS]
    given = json.dumps({"url": page.url, "html": decoded(page)}).encode()
    command = [sys.executable, "-P", "-m", "daycare_plugins.web.reading"]
    with trio.move_on_after(READ_S):
        done = await trio.run_process(
            command, stdin=given, capture_stdout=True, capture_stderr=True, check=False, env={}
        )
        if done.returncode == 0:
            return done.stdout.decode()
    raise InvalidError("WEB_UNREADABLE", f"{page.url}: the page cannot be taken apart")


def decoded(page: WebPage) -> str:
    """Return the text of a page by the character set that it names, else UTF-8."""
    try:
        return page.body.decode(page.charset or "utf-8", "replace")
    except LookupError:
        return page.body.decode("utf-8", "replace")


def markdown_of(html: str, url: str) -> str:
    """Return a page as Markdown, with absolute links and its title above."""
    from bs4 import BeautifulSoup, Tag
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
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
    return heading + "\n".join(kept).strip()


def main() -> None:
    """Read a page as JSON from standard input, and write what it says."""
    resource.setrlimit(resource.RLIMIT_AS, (READ_MEMORY_BYTES, READ_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (round(READ_S), round(READ_S)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    given = json.load(sys.stdin)
    sys.stdout.write(markdown_of(given["html"], given["url"])[:READ_MAX_CHARS])


if __name__ == "__main__":
    main()
