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
