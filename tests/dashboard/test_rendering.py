"""Words of people and models in a page are words."""

import re

import pytest

from daycare.features.dashboard.rendering import amount, dollars, markdown, page

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "![x](https://elsewhere.example/p.png)",
    '[x](https://a.example "onmouseover=alert(1)")',
    "<a href='javascript:x'>x</a>",
    "`<script>alert(1)</script>`",
    "```html\n<script>alert(1)</script>\n```",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<style>*{display:none}</style>",
    "<iframe srcdoc='<script>x</script>'>",
    "| <b onclick=x>a</b> | b |\n|--|--|\n| <form action=//e> | <input> |",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_a_text_says_becomes_markup_that_acts(text: str) -> None:
    html = str(markdown(text))
    tags = re.findall(r"<\s*([a-z0-9]+)([^>]*)>", html)
    assert {name for name, _ in tags} <= {"p", "a", "code", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    for name, attributes in tags:
        assert re.sub(r'\s(href="https?://[^"]*"|rel="[^"]*")', "", attributes) == "", (name, attributes)


def test_markdown_is_shown_as_it_is_meant() -> None:
    html = str(markdown("**bold** and `a < b && c`\n\n- one\n- [two](https://two.example/?a=1&b=2)"))
    assert "<strong>bold</strong>" in html
    assert "<code>a &lt; b &amp;&amp; c</code>" in html
    assert 'href="https://two.example/?a=1&amp;b=2"' in html


def test_a_text_of_unusual_length_is_shown_as_it_was_written() -> None:
    assert str(markdown("*" * 200_000)).startswith("<pre>***")


def test_amounts_are_short_and_money_has_its_sign() -> None:
    assert [amount(each) for each in (0, 999, 2048, 5 * 1024**2)] == ["0", "999", "2k", "5M"]
    assert [dollars(each) for each in (0, 1_234, 20_000_000)] == ["$0.00", "$0.0012", "$20.00"]


async def test_each_page_has_a_policy_of_its_own_that_lets_only_its_script_run() -> None:
    values = {"title": "<x>", "error": {"message": "<b>", "code": "C", "hint": ""}, "pages": [], "here": "", "live": ""}
    values |= {"watch": "", "caller": {"user": "ann", "may": "operator", "name": ""}}
    (one, first), (_, second) = await page("error.html", values), await page("error.html", values)
    nonce = re.search(r"script-src 'nonce-([^']+)'", first["Content-Security-Policy"])
    assert nonce is not None
    assert nonce[1] not in second["Content-Security-Policy"]
    assert f'nonce="{nonce[1]}"' in one
    assert "<b>" not in one and "&lt;b&gt;" in one
    assert "unsafe" not in first["Content-Security-Policy"]
