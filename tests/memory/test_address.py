"""Paths of documents: each has one spelling, and nothing else is one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.documents import Layer
from daycare.base.errors import InvalidError
from daycare.rules.document_paths import CASCADE, Address, FolderScope, folder, parse, spell
from tests.memory import hostile

AGENT, USER, GLOBAL = CASCADE


@pytest.mark.parametrize(
    ("path", "name", "layers"),
    [
        ("IDENTITY.md", "IDENTITY.md", (GLOBAL,)),
        ("global/IDENTITY.md", "IDENTITY.md", (GLOBAL,)),
        ("SOUL.md", "SOUL.md", CASCADE),
        ("STYLE.md", "STYLE.md", CASCADE),
        ("agent/SOUL.md", "SOUL.md", (AGENT,)),
        ("shared/SOUL.md", "SOUL.md", (USER,)),
        ("global/SOUL.md", "SOUL.md", (GLOBAL,)),
        ("USER.md", "USER.md", (USER,)),
        ("shared/USER.md", "USER.md", (USER,)),
        ("MEMORY.md", "MEMORY.md", (AGENT,)),
        ("agent/MEMORY.md", "MEMORY.md", (AGENT,)),
        ("AGENTS.md", "AGENTS.md", ()),
        ("tools.json", "tools.json", ()),
        ("knowledge/garden.md", "knowledge/garden.md", CASCADE),
        ("knowledge/home/wifi-2_b.md", "knowledge/home/wifi-2_b.md", CASCADE),
        ("shared/knowledge/garden.md", "knowledge/garden.md", (USER,)),
        ("skills/cook.md", "skills/cook.md", CASCADE),
        ("global/skills/kitchen/cook.md", "skills/kitchen/cook.md", (GLOBAL,)),
        ("skills/" + "a" * 64 + "/" + "b" * 64 + ".md", "skills/" + "a" * 64 + "/" + "b" * 64 + ".md", CASCADE),
        ("daily/2028-02-29.md", "daily/2028-02-29.md", (AGENT,)),
        ("agent/daily/2027-01-01.md", "daily/2027-01-01.md", (AGENT,)),
        ("workspace/notes.md", "notes.md", (Layer.WORKSPACE,)),
        ("project/garden/plan.md", "garden/plan.md", (Layer.PROJECT,)),
        ("project/daily/plan.md", "daily/plan.md", (Layer.PROJECT,)),
    ],
)
def test_a_path_names_a_document_and_the_layers_that_may_have_it(
    path: str, name: str, layers: tuple[Layer, ...]
) -> None:
    assert parse(path) == Address(path, name, layers)


def test_only_daily_logs_only_grow() -> None:
    growing = [path for path in ("daily/2027-01-01.md", "project/daily/a.md", "SOUL.md") if parse(path).append_only]
    assert growing == ["daily/2027-01-01.md"]


@pytest.mark.parametrize("path", hostile.PATHS, ids=ascii)
def test_what_is_no_path_is_refused_with_what_was_expected(path: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse(path)
    error = caught.value
    assert error.code == "MEMORY_PATH_INVALID"
    assert "expected" in error.message and error.hint
    assert error.message.isascii() and error.message.isprintable(), "what was tried is shown, and shows nothing itself"
    assert len(error.message) < 500


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("../SOUL.md", "lead nowhere"),
        ("/SOUL.md", "not a path on a disk"),
        ("knowledge//a.md", "before and behind each /"),
        ("soul.md", "SOUL.md, in exactly these letters"),
        ("SOUL\\.md", "a backslash at character 5"),
        ("SOUL%2emd", "nothing is decoded"),
        ("a\x00", "NUL at character 2"),
        ("\u202eSOUL.md", "U+202E (RIGHT-TO-LEFT OVERRIDE)"),
        ("\u0405OUL.md", "U+0405 (CYRILLIC CAPITAL LETTER DZE)"),
        ("knowledge/A.md", "a-z, 0-9, - and _"),
        ("knowledge/nul.md", "open as a device"),
        ("knowledge/a/b/c.md", "knowledge/FOLDER/NAME.md"),
        ("daily/2027-02-30.md", "a day of the calendar"),
        ("shared/MEMORY.md", "agent/MEMORY.md"),
        ("agent/AGENTS.md", "AGENTS.md alone"),
        ("project/a.md", "project/PROJECT/NAME.md"),
    ],
)
def test_an_error_helps_to_write_it_right(path: str, says: str) -> None:
    with pytest.raises(InvalidError) as caught:
        parse(path)
    assert says in caught.value.message


@pytest.mark.parametrize("wrong", [None, 7, b"SOUL.md", ["SOUL.md"], {}])
def test_what_is_no_text_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidError):
        parse(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", FolderScope("", tuple(Layer), "")),
        ("knowledge", FolderScope("knowledge", CASCADE, "knowledge/")),
        ("knowledge/", FolderScope("knowledge", CASCADE, "knowledge/")),
        ("knowledge/home", FolderScope("knowledge/home", CASCADE, "knowledge/home/")),
        ("shared/skills", FolderScope("shared/skills", (USER,), "skills/")),
        ("daily", FolderScope("daily", (AGENT,), "daily/")),
        ("agent/daily", FolderScope("agent/daily", (AGENT,), "daily/")),
        ("global", FolderScope("global", (GLOBAL,), "")),
        ("workspace", FolderScope("workspace", (Layer.WORKSPACE,), "")),
        ("project", FolderScope("project", (Layer.PROJECT,), "")),
        ("project/garden/", FolderScope("project/garden", (Layer.PROJECT,), "garden/")),
    ],
)
def test_a_folder_says_where_to_look(path: str, found: FolderScope) -> None:
    assert folder(path) == found


@pytest.mark.parametrize("path", [path for path in hostile.PATHS if path not in hostile.FOLDERS], ids=ascii)
def test_what_is_no_folder_is_refused(path: str) -> None:
    with pytest.raises(InvalidError) as caught:
        folder(path)
    assert caught.value.code == "MEMORY_PATH_INVALID"


WORDS = st.sampled_from(
    [
        *"aA./-_%\\ \x00~",
        "..",
        "SOUL.md",
        "AGENTS.md",
        "knowledge",
        "daily",
        "agent",
        "shared",
        "global",
        "project",
        ".md",
    ]
)


@given(st.lists(WORDS, max_size=8).map("".join) | st.text(max_size=60))
def test_whatever_is_read_reads_the_same_when_it_is_spelled_again(path: str) -> None:
    try:
        address = parse(path)
    except InvalidError:
        return
    assert path.isascii() and ".." not in path and "//" not in path
    for layer in address.layers:
        for alone in (True, False):
            again = parse(spell(layer, address.name, alone=alone))
            assert again.name == address.name and layer in again.layers
        assert parse(spell(layer, address.name)).layers[0] is layer
