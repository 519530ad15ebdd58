"""The bounds of the daemon, read from where they are: beside their only user, or related ones in `limits.py`."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from daycare.base.durations import duration

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "doc" / "operate" / "limits.md"
_UNITS: Final = re.compile(r"_(MAX|MIN|S|MS|BYTES|CHARS|TOKENS|ROWS|KEPT|SHARE|DAYS|MINUTE|HOUR|PAGE|BATCH)(_|$)")
_HEAD: Final = """\
# Limits

Every queue, wait and retry of daycare ends somewhere. These are the numbers with their reasons; the unit is in the
name. What can be set is in [configuration](configuration.md); the others are part of the code, from which this page is
made by `python -m tests.references`.
"""


class Bound(NamedTuple):
    """A bound: its name, its number, and why it is that."""

    name: str
    value: float
    why: str


def bounds() -> dict[str, list[Bound]]:
    """Return all bounds by the folder or file that they stand in, in the order of the code."""
    values: dict[str, float] = {}
    found: dict[str, list[Bound]] = {}
    files = sorted(file for top in ("daycare", "plugins") for file in (ROOT / top).rglob("*.py"))
    files.sort(key=lambda file: file.name != "limits.py")  # the others are made of these
    for file in files:
        if "testing" in file.parts:
            continue
        here = str((file if file.name == "limits.py" else file.parent).relative_to(ROOT))
        for name, value, why in _constants(file.read_text("utf-8"), values):
            values[name] = value
            if _UNITS.search(name):
                found.setdefault(here, []).append(Bound(name, value, why))
    return dict(sorted(found.items()))


def page() -> str:
    """Return the page as it has to be."""
    parts = [_HEAD]
    for place, those in bounds().items():
        lines = [f"| `{it.name}` | {_shown(it)} | {it.why.replace('|', ' or ')} |" for it in those]
        parts.append("\n".join((f"## `{place}`", "", "| name | is | why |", "| --- | --- | --- |", *lines)) + "\n")
    return "\n".join(parts)


def _constants(source: str, values: dict[str, float]) -> Iterator[Bound]:
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    here = dict(values)
    for node in ast.parse(source).body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None):
            continue
        name = node.target.id
        if not name.isupper() or name.startswith("_") or not ast.unparse(node.annotation).startswith("Final"):
            continue
        value = _number(node.value, here)
        if value is not None:
            here[name] = value
            yield Bound(name, value, comments.get(node.lineno, ""))


def _number(node: ast.expr, values: dict[str, float]) -> float | None:
    """Return the number that an expression of numbers is, None for anything else."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    allowed = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant, ast.Name, ast.expr_context)
    if not names <= values.keys() or not all(isinstance(each, allowed) for each in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}}, values)  # of numbers only
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _shown(it: Bound) -> str:
    number = f"{it.value:,.10g}"
    if it.name.endswith("_S") and it.value >= 90:
        return f"{number} ({duration(it.value)})"
    if "BYTES" in it.name and it.value >= 4_096:
        size, unit = next(
            (it.value / 1024**n, unit) for n, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")) if it.value >= 1024**n
        )
        return f"{number} ({size:.4g} {unit})"
    return number
