"""Every regular expression of the tree, found in its source, and strings that are bad for each, of its own parts."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
_METHODS: Final = ("compile", "sub", "subn", "match", "fullmatch", "search", "split", "findall", "finditer")
_AT_START: Final = {"match", "fullmatch"}
_BESIDE: Final = "/testing/"  # runs in tests only
_MAKES: Final = re.compile(r"^\s*(import re\b|from [\w.]*memory\.patterns import)", re.MULTILINE)  # or has what does
_OF_A_MODULE: Final = re.compile(r"\.\s*([A-Za-z]\w*)(?=\s*\.\s*(\w+))")
PUMPS_MIN: Final = 100  # a repeat that ends earlier costs a constant at most
_ALPHABET: Final = " a1-A.\n\t/_\"'*[(<#:,;=&@|`~!?\\{0zZé\u2028\u4e00"
_ENDS: Final = ("", "\x00", "\n")


class Place(NamedTuple):
    """Where an expression stands, and what is asked of it: `fullmatch`, or `search` for all that look everywhere."""

    where: str  # file and what is in the parentheses, or the name that holds it
    pattern: re.Pattern[Any] | None  # None: it is made while the daemon runs
    anchored: frozenset[str]


def files() -> list[str]:
    """Return the files that may have some."""
    mine = {name: text for name, text in _texts().items() if not (_BESIDE in name or "skeleton/" in name)}
    return [name for name, text in mine.items() if _MAKES.search(text)]


@cache
def _texts() -> dict[str, str]:
    found = sorted([*(ROOT / "daycare").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")])
    return {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in found}


def places() -> Iterator[Place]:
    """Yield all there are in `daycare/` and `plugins/`."""
    for name in files():
        yield from places_in(name)


@cache
def places_in(name: str) -> tuple[Place, ...]:
    """Return those of one file, each once."""
    tree, scope = ast.parse(_texts()[name]), vars(importlib.import_module(_module(name)))
    used = _used(tree)
    for held, how in _used_elsewhere().items():
        used[held] = used.get(held, set()) | how
    seen: set[tuple[Any, int, frozenset[str]]] = set()
    found = []
    for place in (*_called(name, tree, scope, used), *_held(name, scope, used)):
        if place.pattern is not None:
            key = (place.pattern.pattern, place.pattern.flags, place.anchored)
            if key in seen:
                continue
            seen.add(key)
        found.append(place)
    return tuple(found)


def _module(name: str) -> str:
    parts = name.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(["daycare_plugins", *parts[1:]] if parts[0] == "plugins" else parts)


def _used(tree: ast.AST) -> dict[str, set[str]]:
    """Return by name the methods that are called of it; "" if it goes anywhere else."""
    used: dict[str, set[str]] = {}
    called: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
            called.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            used.setdefault(node.id, set()).add("")
    return used


@cache
def _used_elsewhere() -> dict[str, set[str]]:
    """Return the same of names that are read as a module's: `signs.SAYS.match`; and of what looks like it in texts."""
    used: dict[str, set[str]] = {}
    for text in _texts().values():
        for name, method in _OF_A_MODULE.findall(text):
            used.setdefault(name, set()).add(method)
    return used


def _called(name: str, tree: ast.AST, scope: dict[str, Any], used: dict[str, set[str]]) -> Iterator[Place]:
    names = {
        id(node.value): target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    direct = {id(node.value): node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
            continue
        how = {node.func.attr}
        if "compile" in how:
            how = {direct[id(node)]} if id(node) in direct else used.get(names.get(id(node), ""), {""})
        flags = [word.value for word in node.keywords if word.arg == "flags"]
        at = {"compile": 1, "search": 2, "match": 2, "fullmatch": 2, "findall": 2, "finditer": 2}.get(
            node.func.attr, 99
        )
        flags += node.args[at : at + 1]
        try:
            pattern = eval(ast.unparse(node.args[0]), dict(scope))
            made = re.compile(pattern, eval(ast.unparse(flags[0]), dict(scope)) if flags else 0)
        except NameError:
            made = None
        yield Place(f"{name}: {ast.unparse(node.args[0])}", made, _asked(how))


def _held(name: str, scope: dict[str, Any], used: dict[str, set[str]]) -> Iterator[Place]:
    """Yield what stands in a module's names, also if others made it: in tables, and by their methods."""
    for key, value in scope.items():
        for pattern, how in _patterns(value):
            yield Place(f"{name}: {key}", pattern, _asked({how} if how else used.get(key, {""})))


def _patterns(value: Any, depth: int = 0) -> Iterator[tuple[re.Pattern[Any], str]]:
    if isinstance(value, re.Pattern):
        yield value, ""
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__, value.__name__
    elif isinstance(value, list | tuple | set | frozenset | dict) and depth < 4 and len(value) < 500:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _patterns(each, depth + 1)


def _asked(how: set[str]) -> frozenset[str]:
    how = how - {"pattern", "flags"}
    return frozenset(how) if how and how <= _AT_START else frozenset({"search"})


# -- what is bad for one -----------------------------------------------------------------------------------------------


class Pump(NamedTuple):
    """A text to be made as long as one likes."""

    head: str
    body: str
    end: str

    def text(self, chars: int) -> str:
        return self.head + self.body * (chars // len(self.body)) + self.end


def pumps(pattern: re.Pattern[Any]) -> list[Pump]:
    """Return strings that make an expression try again: each repeat pumped, before what does not fit."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    parsed = _parser.parse(text, pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags)
    found: dict[tuple[str, str], None] = {}
    whole = _sample(parsed)
    for head, bodies in _repeats(parsed, ""):
        for body in bodies:
            if body:
                found[head, body] = None
                found["", body] = None
                found["", head + body] = None
    for body in (whole, whole[:-1], whole[: len(whole) // 2], " ", "\n", "a", "a "):
        if body:
            found["", body] = None
    return [Pump(head, body, end) for head, body in found for end in _ENDS]


def _repeats(parsed: Any, head: str) -> Iterator[tuple[str, list[str]]]:
    """Yield for each long repeat what leads to it, and some texts that it can repeat."""
    for op, value in parsed:
        if op in _REPEATS:
            _, most, inner = value
            if most >= PUMPS_MIN:
                single = _fitting(inner, parsed)
                yield head, [*single, _sample(inner), _sample(inner) + " "]
            yield from _repeats(inner, head)
        elif op is _constants.SUBPATTERN:
            yield from _repeats(value[3], head)
        elif op is _constants.ATOMIC_GROUP:
            yield from _repeats(value, head)
        elif op in (_constants.ASSERT, _constants.ASSERT_NOT):
            yield from _repeats(value[1], head)
        elif op is _constants.BRANCH:
            for branch in value[1]:
                yield from _repeats(branch, head)
        head += _sample([(op, value)])


_REPEATS: Final = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)


def _fitting(inner: Any, parsed: Any) -> list[str]:
    """Return some characters that a repeat takes; none if it takes no single ones."""
    try:
        one = _compiler.compile(_parser.SubPattern(parsed.state, list(inner)), parsed.state.flags)
    except (RecursionError, re.error, IndexError):
        return []
    found = [char for char in _ALPHABET if one.fullmatch(char)]
    return [*found[:3], *found[-1:]]


def _sample(parsed: Any) -> str:
    """Return a short text that fits, as nearly as it can be told without trying."""
    return "".join(_one(op, value) for op, value in parsed)


def _one(op: Any, value: Any) -> str:
    match op:
        case _constants.LITERAL:
            return chr(value)
        case _constants.NOT_LITERAL:
            return "a" if value != ord("a") else "b"
        case _constants.ANY:
            return "a"
        case _constants.IN:
            return _of_class(value)
        case _constants.SUBPATTERN:
            return _sample(value[3])
        case _constants.ATOMIC_GROUP:
            return _sample(value)
        case _constants.BRANCH:
            return _sample(value[1][0])
        case _ if op in _REPEATS:
            return _sample(value[2]) * int(min(max(value[0], 1), 40))
    return ""


def _of_class(items: Any) -> str:
    negated = items[0][0] is _constants.NEGATE
    for char in _ALPHABET:
        if any(_has(op, value, char) for op, value in items if op is not _constants.NEGATE) != negated:
            return char
    return chr(
        next(
            (value if op is _constants.LITERAL else value[0] for op, value in items if op is not _constants.CATEGORY),
            97,
        )
    )


def _has(op: Any, value: Any, char: str) -> bool:
    if op is _constants.LITERAL:
        return bool(ord(char) == value)
    if op is _constants.RANGE:
        return bool(value[0] <= ord(char) <= value[1])
    name = str(value)
    kind = char.isdigit() if "DIGIT" in name else char.isspace() if "SPACE" in name else char.isalnum() or char == "_"
    return kind != ("NOT" in name)
