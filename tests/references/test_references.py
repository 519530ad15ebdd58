"""The reference pages are what the code says now."""

import pytest

from tests.references import errors
from tests.references.__main__ import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    made = PAGES[name]
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run: python -m tests.references"


def test_each_error_code_says_what_it_means_and_what_to_do() -> None:
    assert errors.undocumented() == [], "give it a message and a hint where it is raised, or say it in errors.toml"


def test_errors_toml_explains_no_code_that_is_gone() -> None:
    reader = errors.Reader()
    everywhere = "\n".join(errors.sources().values())
    words = set(reader.words) - {"not codes"}
    assert sorted(words - set(reader.found)) == []
    assert [name for name in reader.words["not codes"]["names"] if f'"{name}"' not in everywhere] == []


def test_errors_toml_names_no_class_that_the_source_says() -> None:
    reader = errors.Reader()
    named = {code: words["kinds"] for code, words in reader.words.items() if words.get("kinds", "none") != "none"}
    assert [code for code in named if reader.found[code].kinds] == []


def test_a_code_in_a_table_or_of_a_defect_is_read_with_its_class() -> None:
    """Seen where its class is beside it, or that of `error_boundary`; without, it would look like any defect."""
    found = errors.Reader().found
    assert found["RATE_LIMITED"].kinds == {"UnavailableError"}  # a Refusal
    assert found["REPLY_GONE"].kinds == {"InvalidError"}  # a line of a table
    assert found["RELOAD_FAILED"].kinds == {"UnavailableError"}  # error_boundary, without a class
    assert found["INBOUND_WRONG"].kinds == {"InvalidError"}  # with one
