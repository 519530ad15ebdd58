"""All error codes with what they mean and what to do, read from where the code raises them.

A code is documented by its own message and hint. Where these are composed elsewhere, `errors.toml` says it.
"""

import ast
import itertools
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from daycare.base.errors import DaycareError, UnavailableError

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "doc" / "extend" / "errors.md"
WORDS: Final = Path(__file__).parent / "errors.toml"
HEAD: Final = "| code | HTTP | exit | what it means | what to do |\n| --- | --- | --- | --- | --- |\n"
RAISED: Final = re.compile(r"[A-Z][A-Z0-9_]{3,}")
LITERAL: Final = re.compile(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"')  # wherever it stands: what looks like a code
SHOWN_MAX: Final = 3  # messages of one code
NOBODY: Final = "-"  # no call ends with it
OPEN: Final = "\N{HORIZONTAL ELLIPSIS}"


@dataclass
class Code:
    """One error code, as the source has it."""

    kinds: set[str] = field(default_factory=set)
    messages: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)


def sources() -> dict[Path, str]:
    """Return the text of all that can raise an error."""
    files = sorted(file for place in ("daycare", "plugins") for file in (ROOT / place).rglob("*.py"))
    return {file: file.read_text("utf-8") for file in files if "testing" not in file.parts}


class Reader:
    """Reads errors out of source text."""

    def __init__(self) -> None:
        self.found: defaultdict[str, Code] = defaultdict(Code)
        self.words: dict[str, dict[str, str]] = tomllib.loads(WORDS.read_text("utf-8"))
        texts = sources()
        self._trees = {file: ast.parse(text) for file, text in texts.items() if re.search(r"Error\(|Final = ", text)}
        self._file = Path()
        self._constants = {
            (file, target.id): node.value.value
            for file, tree in self._trees.items()
            for node in tree.body
            for target in _targets(node)
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        }
        every: defaultdict[str, set[str]] = defaultdict(set)
        for (_, name), text in self._constants.items():
            every[name].add(text)
        self._unique = {name: texts.pop() for name, texts in every.items() if len(texts) == 1}
        every_class = (
            found for text in texts.values() for found in re.findall(r"^class (\w+)\(([\w., ]+)", text, re.M)
        )
        self._bases = {name: bases.split(", ") for name, bases in every_class}
        self._kinds: dict[str, type[DaycareError] | None] = {kind.__name__: kind for kind in public()}
        for file, tree in self._trees.items():
            self._file = file
            for node in ast.walk(tree) if "Error" in texts[file] or "error_boundary(" in texts[file] else ():
                if isinstance(node, ast.Call):
                    self._raised(node)
                if isinstance(node, ast.Call | ast.Tuple):
                    self._listed(node.args if isinstance(node, ast.Call) else node.elts)
        literals = {literal for text in texts.values() for literal in LITERAL.findall(text)}
        for literal in literals - set(self.words["not codes"]["names"]) - set(self.found):
            self.found[literal] = Code()

    def kind_of(self, name: str) -> type[DaycareError] | None:
        """Return the public class of errors that a class of this name is, None if it is no error."""
        if name not in self._kinds:
            inherited = (self.kind_of(base) for base in self._bases.get(name, ()))
            self._kinds[name] = next((kind for kind in inherited if kind), None)
        return self._kinds[name]

    def _raised(self, call: ast.Call) -> None:
        kind = self.kind_of(_name(call.func))
        if _name(call.func) == "error_boundary":  # the third is the class
            kind = self.kind_of(_name(call.args[2])) if len(call.args) > 2 else UnavailableError
        code = self._text(call.args[0]) if call.args else ""
        if kind is None or not RAISED.fullmatch(code) or len(call.args) < 2:
            return
        entry = self.found[code]
        entry.kinds.add(kind.__name__)
        hints = [keyword.value for keyword in call.keywords if keyword.arg == "hint"]
        for text, kept in [(call.args[1], entry.messages), *((hint, entry.hints) for hint in hints)]:
            said = " ".join(self._text(text).split())
            if told(said) and said not in kept:
                kept.append(said)

    def _listed(self, items: list[ast.expr]) -> None:
        """Read a line of a table of refusals, or of a call that makes one: a code stands beside its class."""
        for one, other in itertools.pairwise(items):
            for code, kind in ((one, other), (other, one)):
                found = self.kind_of(_name(kind))
                if found and RAISED.fullmatch(text := self._text(code)) and LITERAL.fullmatch(f'"{text}"'):
                    self.found[text].kinds.add(found.__name__)

    def _constant(self, name: str) -> str | None:
        """Return the text that a name stands for: a constant of the module, or one that only one module has."""
        return self._constants.get((self._file, name)) or self._unique.get(name)

    def _text(self, node: ast.expr) -> str:
        """Return a text as the source composes it; what is filled in stands as {name}."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(self._text(part) for part in parts)
            case ast.FormattedValue(value=ast.Name(id=name) | ast.Attribute(attr=name)):
                return self._constant(name) or "{" + name.strip("_") + "}"
            case ast.FormattedValue(value=ast.Call(func=ast.Name(id="str" | "repr" | "len"), args=[ast.Name(id=name)])):
                return "{" + name + "}"
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return self._constant(name) or OPEN
            case ast.IfExp(body=body):
                return self._text(body)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left) + self._text(right)
            case _:
                return OPEN


def public() -> Iterator[type[DaycareError]]:
    """Yield the classes of errors that callers decide by."""
    waiting = [DaycareError]
    while waiting:
        kind = waiting.pop(0)
        if kind.__module__ == DaycareError.__module__:
            yield kind
            waiting.extend(kind.__subclasses__())


def told(text: str) -> bool:
    """Is it a text of its own, and not just what is filled in?"""
    return len(re.findall(r"[A-Za-z]{2,}", re.sub(r"\{\w+\}", "", text))) >= 2


def advice(kind: type[DaycareError]) -> str:
    """Return what to do about every error of a class: the second half of its first sentence."""
    said = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return said.partition(": ")[2].partition(". ")[0].rstrip(".") or "`daycare logs`"


@cache
def rows() -> dict[str, str]:
    """Return the row of each code."""
    reader = Reader()
    kinds = {kind.__name__: kind for kind in public()}
    made = {}
    for code, entry in sorted(reader.found.items()):
        words = reader.words.get(code, {})
        classes = set(words.get("kinds", "").split()) or entry.kinds
        of = [kinds[name] for name in sorted(classes - {"none"})]
        means = [words["means"]] if "means" in words else [f"`{_cell(text)}`" for text in entry.messages[:SHOWN_MAX]]
        do = [words["do"]] if "do" in words else [f"`{_cell(text)}`" for text in entry.hints[:SHOWN_MAX]]
        statuses, exits = ({str(getattr(kind, name)) for kind in of} for name in ("http_status", "exit_code"))
        statuses = {words["http"]} if "http" in words else statuses  # of a class of its own
        if "none" in classes:
            statuses, exits = {NOBODY}, {NOBODY}
        cells = [f"`{code}`", ", ".join(sorted(statuses)), ", ".join(sorted(exits)), "; ".join(means)]
        made[code] = f"| {' | '.join([*cells, '; '.join(do) or '; '.join(dict.fromkeys(map(advice, of)))])} |"
    return made


def undocumented() -> list[str]:
    """Return the codes that lack a meaning, a status or something to do."""
    return [code for code, row in rows().items() if any(not cell.strip() for cell in row.strip("|").split(" | "))]


def page() -> str:
    """Return the page as it has to be."""
    lines = ["| class | HTTP | exit | what it means |", "| --- | --- | --- | --- |"]
    for kind in public():
        said = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
        lines.append(f"| `{kind.__name__}` | {kind.http_status} | {kind.exit_code} | {said} |")
    intro = PAGE.read_text("utf-8").partition("## Classes\n")[0]
    return intro + "## Classes\n\n" + "\n".join(lines) + "\n\n## Codes\n\n" + HEAD + "\n".join(rows().values()) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def _targets(node: ast.stmt) -> Iterator[ast.Name]:
    for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
        if isinstance(target, ast.Name):
            yield target


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
