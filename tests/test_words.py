"""Text that people read is plain English: turns of phrase that crept in stay out of messages, hints, help and pages."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
INSTEAD: Final = {
    r"\banew\b": "again, or a verb with re-: reload, rewrite, restart",
    r"\bonce more\b": "again",
    r"\bbelongs? into\b": "belongs in",
    r"\bwhoever\b(?! it)": "the owner, anyone who, the person who",
    r"\bwhat (became|becomes|came|comes) of\b": "the result of",
    r"\blasting (agents?|ones?)\b": "permanent agent",
    r"\b(who|somebody|nobody|address) knocked\b": "a stranger who wrote",
    r"\bis a wish for\b": "asks for",
    r"\bthe hour has come\b": "it is due",
    r"(?<!there )\b(is|are) none\b(?! (yet|of))": "is invalid, or there is no",
    r"(?<!there )\b(is|are) no (path|folder|file|name|number)\b": "is not a",
    r"(?<!there )\bis no (text|valid)\b": "is not",
    r"\b(is|are|was|were) told (of|with|by)\b": "is notified of, is reported with",
    r"\b(you|sender|owner|operator|person) (is|are) told\b(?! to)": "is notified",
}
MODULES: Final = {
    "announcing": "what is announced, such as events or hooks",
    "arrivals": "admission",
    "blame": "error_boundary",
    "clockwork": "hooks",
    "curation": "extraction schedule",
    "curator": "extraction worker",
    "deciders": "approvers",
    "desk": "service",
    "fitting": "what it does, such as settings_filter",
    "forms": "secret_encodings",
    "found": "import_model",
    "gauges": "metrics",
    "holding": "crash_breaker",
    "house": "daemon",
    "kept": "stored",
    "knock": "pairing_request",
    "lasting": "permanent",
    "leaving": "shutdown",
    "lessons": "merge results",
    "life": "lifecycle",
    "lines": "toml_positions",
    "looks": "checks",
    "measures": "metrics",
    "moments": "hook_events",
    "needs": "ports",
    "outcomes": "what is told of them, such as approval_messages",
    "pace": "rate_limit",
    "patience": "retry",
    "permits": "permission_checks",
    "picture": "preview",
    "pigeon": "fake_connector",
    "presence": "typing_status",
    "recollection": "recall, facts, log or documents",
    "remembered": "facts, log or documents",
    "remembering": "facts, log or documents",
    "scene": "search_scope, or the context of what",
    "scrap": "fragment",
    "scribe": "conversation_log",
    "shelf": "store",
    "signs": "sign_bits or markup",
    "starts": "crash_log",
    "storms": "loop_guard",
    "takers": "dispatch",
    "taking": "apply",
    "trove": "import_model",
    "wishes": "requests",
}
SILENT: Final = {"lists.py", "thesaurus.py"}  # words that are looked for, not said


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page by name, as one line: a phrase may be wrapped."""
    for file in [*sorted((ROOT / "doc").rglob("*.md")), ROOT / "README.md", ROOT / "config.example.toml"]:
        yield str(file.relative_to(ROOT)), " ".join(file.read_text("utf-8").replace("\n#", "\n").split())


def said() -> Iterator[tuple[str, str]]:
    """Yield each text of the program that is a message, a hint, a label or help: every one that has a blank."""
    for file in sorted(file for place in ("daycare", "plugins") for file in (ROOT / place).rglob("*.py")):
        if "testing" in file.parts or file.name in SILENT:
            continue
        tree = ast.parse(file.read_text("utf-8"))
        nodes = list(ast.walk(tree))
        inner = {id(text) for node in nodes if (text := _docstring(node)) is not None}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value


def _docstring(node: ast.AST) -> ast.expr | None:
    """Return the docstring of what no person reads at the terminal; that of a command is its help."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return None
    shown = any("command" in ast.unparse(each) for each in getattr(node, "decorator_list", ()))
    first = node.body[0]
    return first.value if isinstance(first, ast.Expr) and not shown else None


def misses(texts: Iterator[tuple[str, str]]) -> list[str]:
    """Return where a phrase stands that another one is better for."""
    return [
        f"{where}: {found[0]!r} -> {better}"
        for where, text in texts
        for phrase, better in INSTEAD.items()
        for found in re.finditer(phrase, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("texts", [pages, said])
def test_what_people_read_is_plain_english(texts: object) -> None:
    assert callable(texts)
    assert misses(texts()) == []


@pytest.mark.parametrize(
    "text",
    [
        "taken anew",
        "does not belong into it",
        "its hash is none",
        "Whoever asks",
        "it is no folder",
        "you are told of it",
    ],
)
def test_a_phrase_that_crept_in_is_seen(text: str) -> None:
    assert misses(iter([("here", text)]))


@pytest.mark.parametrize("text", ["there is none", "there is no folder", "it is told to end", "the sender, told twice"])
def test_plain_words_pass(text: str) -> None:
    assert misses(iter([("here", text)])) == []


def product() -> Iterator[Path]:
    """Yield each module of the product."""
    return (file for place in ("daycare", "plugins") for file in sorted((ROOT / place).rglob("*.py")))


def classes(files: Iterable[Path]) -> dict[str, list[str]]:
    """Return by name where public classes of modules stand; one within another class or function is its own affair."""
    found: dict[str, list[str]] = {}
    for file in files:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(f"{file}:{node.lineno}")
    return found


def private(files: Iterable[Path]) -> list[str]:
    """Return which modules and packages have a private word as their name, and what the word of the field is."""
    named = ((file, file.parent.name if file.stem == "__init__" else file.stem) for file in files)
    return [f"{file} -> {MODULES[name]}" for file, name in named if name in MODULES]


def test_a_public_class_name_stands_for_one_thing() -> None:
    twice = {name: places for name, places in classes(product()).items() if len(places) > 1}
    assert not twice, "give the more special one a name that says what it is of, such as TelegramSettings"


def test_no_module_has_a_private_word_as_its_name() -> None:
    assert private(product()) == []


def test_a_name_that_stands_for_two_things_is_seen(tmp_path: Path) -> None:
    for name in ("one.py", "takers.py"):
        (tmp_path / name).write_text("class Entry:\n    class Part: ...\n\n\nclass _Line: ...\n")
    files = sorted(tmp_path.iterdir())
    assert {name: len(places) for name, places in classes(files).items()} == {"Entry": 2}
    assert private(files) == [f"{tmp_path / 'takers.py'} -> dispatch"]
