"""Changing config.toml for its owner: what is not changed stays as it is, to the letter."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.errors import ConflictError
from daycare.features.configuration.toml_edit import Changes, changed_lines, edited

MODEL, URL = ("models", "default"), ("plugins", "telegram", "base_url")
OWN = '''\
# mine
[agent]
name = "Bo"   # a name

# about models
[models]
default = "offline/rules" # why
fallbacks = [
  "a/b",  # first
]

[plugins.lists]
x = 1
'''  # fmt: skip


def test_comments_order_and_other_keys_stay() -> None:
    done = edited(
        OWN, {MODEL: "box/m", ("agent", "tone"): "dry", ("providers", "box", "base_url"): "http://y", URL: "x"}
    )
    assert (
        done
        == OWN.replace('"offline/rules"', '"box/m"').replace("# a name\n", '# a name\ntone = "dry"\n')
        + '\n[providers.box]\nbase_url = "http://y"\n\n[plugins.telegram]\nbase_url = "x"\n'
    )


def test_a_change_that_changes_nothing_leaves_the_text_alone() -> None:
    assert edited(OWN, {MODEL: "offline/rules", URL: None}) is OWN


@pytest.mark.parametrize(
    ("text", "changes", "becomes"),
    [
        ("", {MODEL: "a/b"}, '[models]\ndefault = "a/b"\n'),
        ("a.b = 1", {("a", "c"): True}, None),  # no section a that could be added to
        ('models = {default = "x"}\n', {MODEL: "a/b"}, 'models = {default = "a/b"}\n'),
        ("plugins = {a = {x = 1}}\n", {URL: "u"}, None),
        ('[models]\ndefault = """\nx\n[agent]\n"""\n', {MODEL: "a/b"}, '[models]\ndefault = "a/b"\n'),
        ('[models]\r\ndefault = "x"\r\n', {("models", "user"): "y"}, '[models]\r\ndefault = "x"\r\nuser = "y"\r\n'),
        ('\ufeff[models]\ndefault = "x"\n', {MODEL: "y"}, '\ufeff[models]\ndefault = "y"\n'),
        ("[plugins.telegram]\n[plugins.telegram.bots.b]\npoll_s = 2\n", {URL: "u"},
         '[plugins.telegram]\nbase_url = "u"\n[plugins.telegram.bots.b]\npoll_s = 2\n'),
        ('[plugins.telegram]\nbase_url = "u"\npoll_s = 2\n', {URL: None}, "[plugins.telegram]\npoll_s = 2\n"),
        ('[[rules]]\naction = "x"\n', {MODEL: 'a"b'}, '[[rules]]\naction = "x"\n\n[models]\ndefault = "a\\"b"\n'),
    ],
)  # fmt: skip
def test_each_way_of_writing_it_is_changed_or_refused(text: str, changes: Changes, becomes: str | None) -> None:
    if becomes is not None:
        assert edited(text, changes) == becomes
        return
    with pytest.raises(ConflictError, match="cannot be changed where it stands"):
        edited(text, changes)


def test_what_differs_is_shown_with_what_stands_around_it() -> None:
    after = OWN.replace('"Bo"', '"Robin"').replace("x = 1", "x = 2")
    assert list(changed_lines(OWN, after)) == [
        " [agent]", '-name = "Bo"   # a name', '+name = "Robin"   # a name', " ", "...",
        " [plugins.lists]", "-x = 1", "+x = 2",
    ]  # fmt: skip


NAMES = st.sampled_from(["a", "b", "c d", "é", "x-1"])
VALUES = st.one_of(st.booleans(), st.integers(-9, 9), st.text("ab\"'\\#\n[]é", max_size=6))
ROWS = st.lists(
    st.one_of(
        st.tuples(st.just("["), st.lists(NAMES, min_size=1, max_size=3)),
        st.tuples(st.just("="), NAMES, VALUES),
        st.just(("#", "# [not] = a section")),
        st.just(("#", "")),
    ),
    max_size=12,
)


@given(ROWS, st.dictionaries(st.lists(NAMES, min_size=2, max_size=3).map(tuple), VALUES, min_size=1, max_size=3))
def test_in_any_text_the_change_is_made_or_refused_and_nothing_else_differs(rows: Any, changes: Changes) -> None:
    import tomlkit

    lines = []
    for kind, *rest in rows:
        if kind == "[":
            lines.append(f"[{'.'.join(repr(name) for name in rest[0])}]")
        else:
            lines.append(f"{rest[0]!r} = {tomlkit.item(rest[1]).as_string()}" if kind == "=" else rest[0])
    text = "\n".join(lines) + "\n"
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    try:
        done = edited(text, changes)
    except ConflictError:
        return
    after = tomllib.loads(done)
    for key, value in changes.items():
        table: Any = after
        for name in key:
            table = table[name]
        assert table == value
    for key in changes:
        _drop(before, key)
        _drop(after, key)
    assert _bare(before) == _bare(after)
    removed = [line for line in changed_lines(text, done) if line.startswith("-") and line.strip("- ")]
    assert len(removed) <= sum(2 + str(value).count("\n") for value in changes.values())


def _drop(table: Any, key: tuple[str, ...]) -> None:
    for name in key[:-1]:
        table = table.get(name, {}) if isinstance(table, dict) else {}
    if isinstance(table, dict):
        table.pop(key[-1], None)


def _bare(table: Any) -> Any:
    """Return a table without the empty sections in it."""
    if not isinstance(table, dict):
        return table
    found = {name: _bare(value) for name, value in table.items()}
    return {name: value for name, value in found.items() if value != {}}
