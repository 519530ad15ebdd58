"""What a page or a document of the web says, as text that a model reads."""

from typing import Final

from daycare.base.errors import InvalidError
from daycare.formats import reading as formats
from daycare_plugins.web.fetching import WebPage

READ_MAX_CHARS: Final = 200_000  # of the text; the rest is cut


async def text_of(page: WebPage) -> str:
    """Return what a page says. Raises `InvalidError` WEB_UNREADABLE for one that cannot be taken apart."""
    html = page.media_type in formats.HTML
    if not html and not formats.readable(page.body, page.media_type):
        return decoded(page)[:READ_MAX_CHARS]
    try:
        if html:  # by the character set that its server names
            body = decoded(page).encode()
            return await formats.text_of(body, charset="utf-8", url=page.url, most=READ_MAX_CHARS, html=True)
        return await formats.text_of(page.body, url=page.url, most=READ_MAX_CHARS)
    except InvalidError as error:
        raise InvalidError("WEB_UNREADABLE", f"{page.url} cannot be read: {error.message}") from None


def decoded(page: WebPage) -> str:
    """Return the text of a page by the character set that it names, else UTF-8."""
    try:
        return page.body.decode(page.charset or "utf-8", "replace")
    except LookupError:
        return page.body.decode("utf-8", "replace")
