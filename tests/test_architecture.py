"""doc/contribute/architecture.md holds the modules' own words. `python -m tests.test_architecture` writes it."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "doc" / "contribute" / "architecture.md"
BEGIN, END = "<!-- map -->\n", "<!-- /map -->"


def made() -> str:
    """Return the table of every module with the first sentence of its docstring."""
    lines = ["| module | what it is for |", "| --- | --- |"]
    for file in sorted((ROOT / "daycare").rglob("*.py")):
        said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        assert said, f"{file} says nothing about itself"
        name = str(file.relative_to(ROOT / "daycare"))
        first = " ".join(said.split("\n\n")[0].split())
        lines.append(f"| `{name}` | {first} |")
    return "\n".join(lines) + "\n"


def written() -> str:
    """Return the table as it stands on the page."""
    text = PAGE.read_text(encoding="utf-8")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def test_the_map_of_the_code_is_up_to_date() -> None:
    assert written() == made(), "run: python -m tests.test_architecture"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text.replace(written(), made()) if written() else text.replace(BEGIN, BEGIN + made()), "utf-8")
