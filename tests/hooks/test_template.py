"""Templates: what is filled in, what is left empty, and that no payload makes more of one."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.errors import InvalidError
from daycare.features.hooks.template import (
    HOOK_TEXT_MAX_BYTES,
    HOOK_VALUE_MAX_CHARS,
    TEMPLATE_MAX_CHARS,
    TEMPLATE_PLACES_MAX,
    check_template,
    fill,
)

PAYLOAD = {
    "issue": {"title": "It leaks", "number": 7, "open": True, "labels": [{"name": "bug"}], "assignee": None},
    "sender": {"login": "eve"},
}
OWN = {"@event": "issues.opened", "@delivery": "d1", "@hook": "gh", "@json": "{...}"}


def filled(template: str, payload: Any = PAYLOAD, headers: dict[str, str] | None = None) -> str:
    return fill(check_template(template), payload, headers or {}, OWN)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("New: {{ issue.title }}", "New: It leaks"),
        ("{{issue.number}}{{  issue.open  }}", "7true"),
        ("{{ issue.labels.0.name }}/{{ issue.labels.1.name }}/{{ issue.labels.-1 }}", "bug//"),
        ("{{ issue.labels }}", '[{"name":"bug"}]'),
        ("[{{ issue.assignee }}{{ nothing.at.all }}{{ issue.title.x }}]", "[]"),
        ("{{ issue.title | 2 }}", "It..."),
        ("{{ @event }} {{ @delivery }} {{ @hook }} {{ @json }}", "issues.opened d1 gh {...}"),
        ("{{ @header.User-Agent }}", "curl"),
        ("{{ @header.authorization }}{{ @header.cookie }}", ""),
        ("", "issues.opened\n{...}"),
        ("no place { at } all", "no place { at } all"),
    ],
)
def test_a_place_is_a_path_into_what_came(template: str, text: str) -> None:
    headers = {"user-agent": "curl", "authorization": "Bearer x", "cookie": "x"}
    assert filled(template, headers=headers) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ }}",
        "{{ a b }}",
        "{{ a | upper }}",
        "{{ a | 0 }}",
        "{{ a | 100000 }}",
        "{{ a() }}",
        "{{ a['b'] }}",
        "{{ a..b }}",
        "{{ 7 * 7 }}",
        "{{ @secret }}",
        "{{ @header }}",
        "{{ a",
        "a }}",
        "{{{{ a }}}}",
        "{% for x in y %}{{ x | e }}{% endfor %}",
        "{{ " + ".".join("a" * 40) + " }}",
        "x" * (TEMPLATE_MAX_CHARS + 1),
        "{{ a }}" * (TEMPLATE_PLACES_MAX + 1),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused_when_it_is_made(template: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_template(template)
    assert caught.value.code == "HOOK_TEMPLATE"


def test_what_is_filled_in_is_not_looked_at_again() -> None:
    hostile = {"a": "{{ b }} {{ @json }} {{ @header.x }}", "b": "secret", "{{ b }}": "x"}
    assert filled("{{ a }}", hostile) == hostile["a"]


def test_each_value_and_the_whole_are_bounded_in_bytes_and_end_between_two_letters() -> None:
    assert len(filled("{{ a }}", {"a": "x" * 100_000})) == HOOK_VALUE_MAX_CHARS + len("...")
    big = {"a": "\u6f22" * 90_000}
    text = filled("{{ a | 90000 }}", big)
    assert len(text.encode()) <= HOOK_TEXT_MAX_BYTES and text.endswith("[cut here: it has 270000 bytes]")
    assert set(text.partition("\n")[0]) == {"\u6f22"}
    whole = fill("", big, {}, OWN | {"@json": "y" * 200_000})
    assert len(whole) <= HOOK_TEXT_MAX_BYTES and "cut here" in whole


def test_no_template_takes_long() -> None:
    began = time.process_time()
    for template in ("{{" * 2_000, "{{ a" + " " * 3_900, "{{ " + "a." * 1_900 + " }}", "{" * 4_000, "{{ a|" * 800):
        with pytest.raises(InvalidError):
            check_template(template)
    assert time.process_time() - began < 1.0


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_any_payload_gives_a_bounded_text(payload: Any) -> None:
    text = filled("{{ a.b.0 }}|{{ 0 }}|{{ a | 5 }}|{{ @json }}", payload)
    assert len(text.encode()) <= HOOK_TEXT_MAX_BYTES
    inside = msgspec.json.decode(msgspec.json.encode(payload))
    assert filled("{{ a.b.0 }}|{{ 0 }}|{{ a | 5 }}|{{ @json }}", inside) == text
