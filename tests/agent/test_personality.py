"""Personality files: what comes along, what of one's own is taken, and how a wrong one is refused."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.agent.personality import DEFAULT, PERSONALITY_MAX_BYTES, Personalities, Personality, check_file, read
from daycare.base.errors import InvalidError, NotFoundError

PIRATE: dict[str, Any] = {
    "name": "pirate",
    "description": "Speaks of the sea.",
    "style": "creative",
    "tone": ["playful", "direct"],
    "traits": [{"name": "salty", "description": "says arr", "intensity": 10}],
    "preferences": {"length": "concise", "structure": "step-by-step", "examples": False, "codeBlocks": True},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the pirate with one field changed; `...` takes it away."""
    made: dict[str, Any] = json.loads(json.dumps(PIRATE))
    *above, last = path.split(".")
    at: Any = made
    for key in above:
        at = at[int(key)] if isinstance(at, list) else at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return made


def test_it_is_rendered_into_a_few_lines() -> None:
    found = read(json.dumps(PIRATE).encode(), "pirate.json")
    assert found.render() == (
        "pirate: Speaks of the sea.\n"
        "Style: creative. Tone: playful, direct.\n"
        "- salty (10 of 10): says arr\n"
        "Answers: concise, step-by-step, without examples, code in blocks."
    )


@pytest.mark.parametrize("name", ["default", "professional", "casual", "creative"])
def test_four_come_along(tmp_path: Path, name: str) -> None:
    found = Personalities(tmp_path / "none").get(name)
    assert found.name == name and len(found.traits) == 2
    assert found.render() == read(msgspec.json.encode(found), name).render()


def test_what_is_left_out_takes_its_default() -> None:
    found = read(b'{"name": "n", "description": "", "style": "formal", "tone": ["direct"]}', "n.json")
    assert found.render() == (
        "n\nStyle: formal. Tone: direct.\nAnswers: balanced, narrative, with examples, code in blocks."
    )


STYLES = "formal, casual, technical, creative or professional"
TONES = "friendly, professional, playful, empathetic or direct"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", ..., "name: expected text of 1 to 64 characters, found nothing"),
        ("name", "", 'name: expected text of 1 to 64 characters, found ""'),
        ("name", 7, "name: expected text of 1 to 64 characters, found 7"),
        ("description", None, "description: expected text of 0 to 500 characters, found null"),
        ("description", "x" * 501, f'description: expected text of 0 to 500 characters, found "{"x" * 56}...'),
        ("style", "loud", f'style: expected {STYLES}, found "loud"'),
        ("style", "Formal", f'style: expected {STYLES}, found "Formal"'),
        ("style", ..., f"style: expected {STYLES}, found nothing"),
        ("tone", "direct", f'tone: expected a list of 1 to 5, each {TONES}, found "direct"'),
        ("tone", [], f"tone: expected a list of 1 to 5, each {TONES}, found 0"),
        ("tone", ["direct"] * 6, f"tone: expected a list of 1 to 5, each {TONES}, found 6"),
        ("tone", ["direct", "rude"], f'tone[1]: expected {TONES}, found "rude"'),
        ("traits", {}, "traits: expected a list of 0 to 20, found an object"),
        ("traits", ["salty"], 'traits[0]: expected an object, found "salty"'),
        ("traits", [PIRATE["traits"][0]] * 21, "traits: expected a list of 0 to 20, found 21"),
        ("traits.0.intensity", 0, "traits[0].intensity: expected a whole number from 1 to 10, found 0"),
        ("traits.0.intensity", 11, "traits[0].intensity: expected a whole number from 1 to 10, found 11"),
        ("traits.0.intensity", 5.5, "traits[0].intensity: expected a whole number from 1 to 10, found 5.5"),
        ("traits.0.intensity", True, "traits[0].intensity: expected a whole number from 1 to 10, found true"),
        ("traits.0.intensity", "5", 'traits[0].intensity: expected a whole number from 1 to 10, found "5"'),
        ("traits.0.name", ..., "traits[0].name: expected text of 1 to 64 characters, found nothing"),
        ("traits.0.description", ..., "traits[0].description: expected text of 0 to 500 characters, found nothing"),
        ("traits.0.strength", 3, "traits[0].strength: unknown field; known are name, description, intensity"),
        ("preferences", [], "preferences: expected an object, found a list"),
        ("preferences.length", "short", 'preferences.length: expected concise, balanced or detailed, found "short"'),
        ("preferences.structure", "list",
         'preferences.structure: expected narrative, bulleted or step-by-step, found "list"'),
        ("preferences.examples", "yes", 'preferences.examples: expected true or false, found "yes"'),
        ("preferences.codeBlocks", 1, "preferences.codeBlocks: expected true or false, found 1"),
        ("preferences.code_blocks", True, "preferences.code_blocks: unknown field; did you mean codeBlocks?"),
        ("stile", "formal", "stile: unknown field; did you mean style?"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_what_was_expected_and_found(field: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidError) as refused:
        read(json.dumps(changed(field, value)).encode(), "mine.json")
    [line] = refused.value.message.splitlines()
    assert refused.value.code == "PERSONALITY_INVALID"
    assert line.startswith(f"mine.json: {said}")


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidError) as refused:
        read(b'{"name": "x", "style": "loud", "tone": ["rude"]}', "f")
    assert [line.split(": ")[1] for line in refused.value.message.splitlines()] == ["style", "tone[0]", "description"]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 60_000, b" " * (PERSONALITY_MAX_BYTES + 1)]
)
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidError, match="the file"):
        read(raw, "f")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*PIRATE, "x"]), inner, max_size=4),
)


@given(st.dictionaries(st.sampled_from([*PIRATE, "more"]), json_values) | json_values)
def test_a_file_is_taken_or_refused_and_what_is_told_is_what_the_type_says(value: Any) -> None:
    raw = json.dumps(value).encode()
    try:
        found = read(raw, "f")
    except InvalidError:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(raw, type=Personality)
    else:
        assert found == msgspec.json.decode(raw, type=Personality)


# -- the owner's files -----------------------------------------------------------------------------------------------


def test_ones_own_goes_before_and_is_read_again_when_it_changes(tmp_path: Path) -> None:
    known = Personalities(tmp_path)
    file = tmp_path / "casual.json"
    assert known.get("casual").name == "casual" and not known.is_own("casual")
    file.write_text(json.dumps(PIRATE))
    assert known.get("casual").name == "pirate" and known.is_own("casual")
    file.write_text(json.dumps(changed("name", "corsair")))
    assert known.get("casual").name == "corsair"
    file.unlink()
    assert known.get("casual").name == "casual"


def test_one_that_is_missing_or_wrong_gives_way_to_the_next_and_to_the_default(tmp_path: Path) -> None:
    known = Personalities(tmp_path)
    (tmp_path / "wrong.json").write_text("{}")
    assert known.chosen("missing", "creative").name == "creative"
    assert known.chosen("wrong", "../../etc/passwd").name == DEFAULT
    (tmp_path / "default.json").write_text("{}")
    assert known.chosen("wrong").name == DEFAULT
    with pytest.raises(NotFoundError, match="none of that name") as refused:
        known.get("casul")
    assert refused.value.hint == "did you mean casual?"


@pytest.mark.parametrize("name", ["", "../casual", "a/b", "Casual", ".hidden", "a\x00b", "casual.json"])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidError):
        Personalities(tmp_path / "personalities").get(name)


def test_links_pipes_and_folders_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(json.dumps(PIRATE))
    (tmp_path / "link.json").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    known = Personalities(tmp_path)
    assert {"link", "pipe", "folder"} < set(known.names())
    for name in ("link", "pipe", "folder"):
        with pytest.raises(InvalidError, match="cannot be read"):
            known.get(name)
    with pytest.raises(InvalidError, match="cannot be read"):
        check_file(tmp_path / "pipe.json")
