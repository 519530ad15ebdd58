"""What is a good skill: the standard's own validator is asked the same."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from skills_ref.validator import validate

from daycare.rules.skill_text import flaws, read_head, skill_text
from tests.chance import SEED

SKILLS = 200
NAMES = (
    "pdf",
    "weekly-report",
    "a1",
    "größe",
    "x" * 64,
    "x" * 65,
    "",
    "-a",
    "a-",
    "a--b",
    "PDF",
    "a_b",
    "a b",
    "a/b",
    "é",
)
DESCRIPTIONS = (
    *("Reads PDFs.", "'quoted: yes'", '"with \\" one"', "", "''", "x" * 1_024, "x" * 1_025, ">\n  two\n  lines"),
    *(
        "|\n  kept\n  lines",
        "[a, b]",
        "{a: b}",
        "&anchor x",
        "!!str x",
        "*alias",
        "a: b",
        "- a",
        "\n  - a",
        "# no",
        "ünï 🎉",
    ),
)
MORE = (
    *("license: MIT", "compatibility: Needs git.", f"compatibility: {'x' * 501}", "compatibility:\n  git: 2"),
    *('metadata:\n  author: Ann\n  version: "1.0"', "metadata:\n  a: 1\n  a: 2", "metadata: none", "metadata: {a: b}"),
    *(
        "allowed-tools: Bash(git:*) Read",
        "allowed-tools:\n  - Read",
        "version: 1",
        "name: twice",
        "  bad: indent",
        "a\tb",
        "# a comment",
    ),
)
BEGINNINGS = ("---\n", "", " ---\n", "\ufeff---\n")
ENDS = ("---\n", "", "...\n")


def skill(rng: random.Random) -> tuple[str, str]:
    """Return the name of a folder and what SKILL.md says in it: mostly something good."""

    def one(choices: Sequence[str], usual: float) -> str:
        return choices[0] if rng.random() < usual else rng.choice(choices)

    name = one(NAMES, 0.3)
    lines = [f"name: {name}" if rng.random() < 0.95 else "", f"description: {one(DESCRIPTIONS, 0.4)}"]
    lines += rng.sample(MORE, rng.choice((0, 0, 1, 1, 2)))
    if rng.random() < 0.3:
        rng.shuffle(lines)
    front = "".join(f"{line}\n" for line in lines if line)
    newline = "\r\n" if rng.random() < 0.1 else "\n"
    text = f"{one(BEGINNINGS, 0.95)}{front}{one(ENDS, 0.95)}\n# How\n\nDo it.\n".replace("\n", newline)
    folder = name if name and "/" not in name and rng.random() < 0.95 else "other"
    return folder, text


def test_the_standards_own_validator_agrees_on_200_skills(tmp_path: Path) -> None:
    print(f"SEED={SEED}")
    rng = random.Random(SEED)
    good = 0
    for number in range(SKILLS):
        name, text = skill(rng)
        folder = tmp_path / str(number) / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_bytes(text.encode())
        theirs, mine = validate(folder), flaws(text, name)
        assert bool(theirs) == bool(mine), (text, theirs, mine)
        good += not mine
    assert SKILLS / 10 < good < SKILLS / 2, "both kinds are tried"


@pytest.mark.parametrize("description", ["Say: yes", '"quoted"', "- x", "# no comment", "a 'b' {c} [d] *e &f"])
def test_what_is_written_is_as_the_standard_says_and_reads_the_same(tmp_path: Path, description: str) -> None:
    text = skill_text("tea", description, "Boil water.")
    (tmp_path / "tea").mkdir()
    (tmp_path / "tea" / "SKILL.md").write_text(text)
    assert flaws(text, "tea") == validate(tmp_path / "tea") == []
    assert read_head(text, "other").description == description


def test_what_is_wrong_is_read_all_the_same() -> None:
    head = read_head("---\nname: [x\n---\n# Make tea\n\nBoil water.\n", "tea")
    assert (head.name, head.description) == ("tea", "Make tea")
    named = read_head("---\nname: T\nversion: 1\nallowed-tools: Read, shell\n---\nx", "tea")
    assert named.allowed_tools == ("Read", "shell")
