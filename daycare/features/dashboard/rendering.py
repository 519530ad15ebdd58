"""Pages as HTML: templates, how values are written, and what a browser may do with them.

Words of people and models are data: templates escape them, Markdown is cleaned, and the policy of each page lets only
the scripts run that it names.
"""

import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import trio

from daycare.base.interpreter import short_turns
from daycare.base.times import local_time
from daycare.rules.shown import shown

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_HERE: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; "
    "media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types daycare"
)
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_MICROS: Final = 1_000_000
_KIB: Final = 1024
_MARKDOWN_MAX_CHARS: Final = 100_000  # a longer text is shown as it was written
_LINKS: Final = frozenset({"http", "https", "mailto"})
_compiled: set[str] = set()  # templates that were rendered, and those that these extend
_TAGS: Final = {"a", "blockquote", "br", "code", "del", "em", "hr", "li", "ol", "p", "pre", "strong", "ul"} | {
    *("h1", "h2", "h3", "h4", "h5", "h6", "table", "tbody", "td", "th", "thead", "tr")
}


async def page(template: str, values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return a page and its headers. The first of a template is made in a thread: that takes up to 0.2 s."""
    nonce = secrets.token_urlsafe(16)

    def render() -> str:
        return _environment().get_template(template).render(values, nonce=nonce)

    if template in _compiled:
        text = render()
    else:
        with short_turns():
            text = await trio.to_thread.run_sync(render)
        _compiled.add(template)
    return text, {**_HEADERS, "Content-Security-Policy": _POLICY.format(nonce=nonce)}


@cache
def static(name: str) -> bytes | None:
    """Return a file that pages are drawn with, None if there is none of that name."""
    path = _HERE / "static" / name
    return path.read_bytes() if path.name == name and path.is_file() else None


@cache
def mark(name: str) -> str:
    """Return the address of such a file, which changes with it: a browser keeps it until then."""
    from hashlib import sha256

    return f"/static/{name}?{sha256(static(name) or b'').hexdigest()[:12]}"


@cache
def _environment() -> "Environment":
    from jinja2 import ChainableUndefined, Environment, FileSystemLoader

    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=ChainableUndefined,  # the API leaves out what has its default
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(mark=mark)
    found.filters.update(
        qr=qr,
        setting=setting,
        when=when,
        seconds=seconds,
        dollars=dollars,
        amount=amount,
        markdown=markdown,
        address=address,
        plural=plural,
        shown=shown,
    )
    return found


def when(at_ms: int | None) -> "Markup":
    """Return a moment, which the script shows in the browser's time zone."""
    from markupsafe import Markup

    if not at_ms:
        return Markup("<span class=faint>never</span>")
    at = local_time(at_ms)
    return Markup('<time datetime="{}">{} UTC</time>').format(at.isoformat(), f"{at:%Y-%m-%d %H:%M}")


def seconds(took_ms: int) -> str:
    """Return how long something took."""
    return f"{took_ms} ms" if took_ms < 1_000 else f"{took_ms / 1_000:,.1f} s"


def dollars(micros: int) -> str:
    """Return an amount of money."""
    return f"${micros / _MICROS:,.4f}" if 0 < micros < _MICROS / 10 else f"${micros / _MICROS:,.2f}"


def amount(number: int) -> str:
    """Return how much of something: bytes, tokens."""
    for unit in ("", "k", "M", "G"):
        if number < _KIB:
            return f"{number:.3g}{unit}" if unit else str(number)
        number /= _KIB  # type: ignore[assignment]
    return f"{number:.3g}T"


def plural(number: int, one: str, more: str = "") -> str:
    """Return a number of things."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def address(path: str) -> str:
    """Return an agent's path as part of a URL."""
    return quote(path, safe="/")


def markdown(text: str) -> "Markup":
    """Return a text that a model or a person wrote, with its headings, lists, links and code, and nothing else."""
    import nh3
    import pyromark
    from markupsafe import Markup

    if len(text) > _MARKDOWN_MAX_CHARS:
        return Markup("<pre>{}</pre>").format(text)
    options = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
    html = pyromark.html(text.replace("&", "&amp;").replace("<", "&lt;"), options=options)  # tags are words here
    html = html.replace("&amp;lt;", "&lt;").replace("&amp;amp;", "&amp;")  # in code, where nothing was unescaped
    clean = nh3.clean(
        html, tags=_TAGS, attributes={"a": {"href"}, "*": set()}, url_schemes=_LINKS, link_rel="noreferrer noopener"
    )
    return Markup(clean)  # noqa: S704 - this is what cleaning is for


def setting(value: Any) -> str:
    """Return a setting's value as somebody types it: true, a number, words, or items one a line."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return "\n".join(map(str, value))
        case _:
            return str(value)


def qr(text: str) -> "Markup":
    """Return a code to scan, dark on light whatever the colours of the page are."""
    import segno
    from markupsafe import Markup

    code = segno.make_qr(text, error="l")
    return Markup(code.svg_inline(scale=4, dark="#000", light="#fff", svgclass="qr", title="Code to scan"))  # noqa: S704


def diff_lines(diff: str) -> list[tuple[str, str]]:
    """Return the lines of a unified diff below its head, each with what it is: added, removed, place or same."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    return [(kinds.get(line[:1], "same"), line) for line in diff.rstrip("\n").split("\n")[2:]]
