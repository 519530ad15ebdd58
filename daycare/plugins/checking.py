"""Checking a plugin before it is installed: `python -m daycare.plugins.checking PATH_OR_MODULE`, one JSON document.

It imports what it checks, so it runs in a process of its own. It calls `setup` with default settings and an empty
folder, never `start`: a check reaches no network by itself.
"""

import ast
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from daycare.base.clock import SystemClock
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, NotFoundError
from daycare.plugin import Inbound
from daycare.plugins.admission import admit
from daycare.plugins.context import Surroundings
from daycare.plugins.contract import provides
from daycare.plugins.discovery import GROUP, DiscoveredPlugin, discover, load_one
from daycare.store.records import Receipt

MAY_IMPORT = ("daycare.plugin", "daycare.webhook", "daycare.messenger", "daycare.base", "daycare.testing")


class CheckReport(msgspec.Struct, kw_only=True):
    """What a check found. `problems` keep the plugin out of a daemon; `warnings` do not."""

    reference: str
    name: str = ""
    version: str = ""
    description: str = ""
    provides: dict[str, list[str]] = {}
    settings: dict[str, Any] | None = None  # the JSON Schema of its section
    problems: list[str] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)


def check(wanted: str) -> list[CheckReport]:
    """Check the plugins of a folder with a pyproject.toml, of a Python file, or of a module.

    Raises `NotFoundError` PLUGIN_NOT_FOUND when there is none.
    """
    return [_check(reference, version) for reference, version in references(wanted)]


def references(wanted: str) -> list[tuple[str, str]]:
    """Return `module:attribute` and the version of each plugin meant, and make it importable."""
    path = Path(wanted)
    if path.is_dir() and (path / "pyproject.toml").is_file():
        return _of_project(path)
    if path.suffix == ".py" and path.is_file():
        sys.path.insert(0, str(path.parent.absolute()))
        return [(f"{path.stem}:plugin", "")]
    sys.path.insert(0, str(Path.cwd()))
    module, _, attribute = wanted.partition(":")
    with error_boundary("PLUGIN_FAILED", f"looking for {module}"):
        named = all(part.isidentifier() for part in module.split("."))
        if not named or find_spec(module) is None:
            raise NotFoundError(
                "PLUGIN_NOT_FOUND",
                f"checking {wanted}: it is neither a folder with a pyproject.toml nor a Python file nor a module",
                hint="daycare plugins new NAME",
            )
    return [(f"{module}:{attribute or 'plugin'}", "")]


def _of_project(folder: Path) -> list[tuple[str, str]]:
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        points = project["entry-points"][GROUP]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise NotFoundError(
            "PLUGIN_NOT_FOUND",
            f'checking {folder}: its pyproject.toml has no [project.entry-points."{GROUP}"] ({error})',
            hint='add it: NAME = "module:plugin"',
        ) from error
    for place in (folder, folder / "src"):
        sys.path.insert(0, str(place.absolute()))
    return [(str(value), str(project.get("version", ""))) for value in points.values()]


def _check(reference: str, version: str) -> CheckReport:
    report = CheckReport(reference=reference)
    one = load_one(DiscoveredPlugin(name=reference, reference=reference, source="loaded", version=version))
    report.name, report.version = one.name, one.version
    if one.plugin is None:
        assert one.problem is not None
        report.problems.append(one.problem.message)
        return report
    plugin = one.plugin
    report.description = plugin.description
    try:
        with error_boundary("PLUGIN_FAILED", f"setting up {plugin.name}"):
            report.problems += _set_up(one, report)
    except DaycareError as error:
        report.problems.append(error.message)
    if not plugin.description:
        report.warnings.append("it has no description; `daycare plugins list` shows one")
    report.warnings += _foreign_imports(reference.partition(":")[0])
    return report


def _set_up(one: DiscoveredPlugin, report: CheckReport) -> Iterator[str]:
    """Do what a daemon does before it runs a plugin, beside the built-in ones."""
    plugin = one.plugin
    assert plugin is not None
    if plugin.config is not None:
        report.settings = msgspec.json.schema(plugin.config)
        needed = [field.encode_name for field in msgspec.structs.fields(plugin.config) if field.required]
        if needed:
            report.warnings.append(f"not set up, as it has settings without a default: {', '.join(needed)}")
            report.provides = provides(plugin)
            return
    with tempfile.TemporaryDirectory() as folder:
        around = Surroundings(Path(folder), SystemClock(), lambda _: None, lambda token: token.decode(), _nowhere)
        others = [each for each in discover() if each.source == "built in"]
        admitted, left_out = admit([*others, one], lambda _, kind: kind(), around)
    yield from (each.problem.message for each in left_out if each.problem is not None)
    for each in admitted:
        if each.found is one:
            report.provides = provides(each.plugin)
            if not report.provides and each.plugin.start is None:
                report.warnings.append("it provides nothing")


async def _nowhere(inbound: Inbound) -> Receipt:
    raise NotFoundError("CHECK_ONLY", f"accepting a message of {inbound.sender}: this is a check")


def _foreign_imports(module: str) -> Iterator[str]:
    """Warn of imports of our inside: they may change with any version."""
    spec = find_spec(module)
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    if origin is None or not origin.is_file():
        return
    files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names: list[str] = []
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif node.level == 0:
                whole = str(node.module)
                names = [f"daycare.{alias.name}" for alias in node.names] if whole == "daycare" else [whole]
            for name in dict.fromkeys(names):
                inside = name == "daycare" or name.startswith("daycare.")
                if inside and not any(name == door or name.startswith(f"{door}.") for door in MAY_IMPORT):
                    yield f"{file.name}:{node.lineno} imports {name}; only {', '.join(MAY_IMPORT)} are kept stable"


if __name__ == "__main__":
    printed, sys.stdout = sys.stdout, sys.stderr  # what the plugin prints is no part of the answer
    try:
        answer: Any = {"plugins": check(sys.argv[1])}
    except DaycareError as refused:
        answer = {"error": {"code": refused.code, "message": refused.message, "hint": refused.hint}}
    printed.write(msgspec.json.encode(answer).decode())
    printed.flush()
    os._exit(0)  # threads of the plugin must not keep it
