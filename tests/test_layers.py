"""Imports go down only. The table is that of doc/contribute/architecture.md; the failure says what to do instead."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "daycare"

GROUND, SERVICES, RULES, ENGINES, AGENT, EDGES, FEATURES, OPS, DAEMON, PROCESS, CLI = range(11)
FLOORS = {
    "base": GROUND,
    "store": SERVICES,
    "config": SERVICES,
    "settings": SERVICES,
    "observe": SERVICES,
    "formats": SERVICES,
    "public_network": SERVICES,
    "plugin": SERVICES,
    "messenger": SERVICES,
    "webhook": SERVICES,
    "rules": RULES,
    "actors": ENGINES,
    "inference": ENGINES,
    "nodes": ENGINES,
    "tools": ENGINES,
    "agent": AGENT,
    "flow": AGENT,
    "feature": EDGES,
    "connectors": EDGES,
    "features": FEATURES,
    "api": EDGES,
    "plugins": EDGES,
    "ops": OPS,
    "kernel": DAEMON,
    "daemon": DAEMON,
    "process": PROCESS,
    "cli": CLI,
    "__main__": CLI,
}
SIDEWAYS = {  # within a floor: from, to
    ("api", "feature"),
    ("config", "observe"),
    ("config", "settings"),
    ("daemon", "kernel"),
    ("flow", "agent"),
    ("messenger", "plugin"),
    ("messenger", "webhook"),
    ("store", "observe"),
    ("__main__", "cli"),
}
BETWEEN_FEATURES = {  # from, to; what one needs of another, it says here
    ("approvals", "memory"),  # what documents say that requests are about
    ("agents", "memory"),  # the first documents of a new one
    ("agents", "budgets"),  # whether who makes an agent has a budget of its own
    ("backups", "exports"),
    ("budgets", "tasks"),  # who asked for one pays for it
    ("builder", "agents"),  # the templates that it begins with
    ("builder", "approvals"),  # one yes to all of it
    ("builder", "budgets"),  # what its agents may use
    ("builder", "cron"),  # what they do by themselves
    ("builder", "memory"),  # their first documents
    ("builder", "skills"),  # which of them they have
    ("cron", "tasks"),
    ("hooks", "signals"),  # what one brings may go out as a signal
    ("mcp", "approvals"),  # what is suspicious in what a tool says
    ("mcp", "shell"),  # the sandbox in which servers run
    ("memory", "approvals"),
    ("openai", "memory"),  # the embedder
    ("pairing", "people"),
    ("panels", "memory"),  # which they show
    ("shell", "skills"),  # whose scripts run there
    ("shell", "workspaces"),  # in which commands run
    ("skills", "approvals"),  # what is suspicious in one is shown as there
    ("skills", "memory"),  # documents may be skills
    ("skills", "workspaces"),  # which may bring some
    ("voice", "shell"),  # the sandbox in which programs hear and speak
    ("voice", "workspaces"),  # the folder that such a program works in
    ("workspaces", "approvals"),  # which show what a change would be
    ("signals", "budgets"),  # what beats by itself needs one
}
BESIDE = "testing"
SEAM = ("plugin", "webhook", "messenger", "formats", "public_network", "base")  # what a plugin may import
ONLY_IN = {
    "apsw": {"store"},
    "numpy": {"features.memory"},
    "asyncio": set(),
    "structlog": {"observe"},
    "typer": {"cli"},
}
IN_FEATURES = {  # files and folders of a capability that may have them, too
    "apsw": ("rows", "ledger", "lives", "stored", "followers", "store"),
    "typer": ("cli",),
}
IMPORTABLE_BY_ALL = "daycare"  # the package itself: its version


def _name(file: Path) -> str:
    return ".".join((ROOT.name, *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


FILES = {_name(file): file for file in sorted(ROOT.rglob("*.py"))}


def _modules() -> Iterator[tuple[str, Path]]:
    for name, file in FILES.items():
        part = (*name.split("."), "")[1]
        if part not in ("", BESIDE):
            yield part, file


@cache
def _imports(file: Path) -> tuple[tuple[int, str], ...]:
    return tuple(_read(file))


def _read(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the module of each import; `from package import module` imports the module."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{file}:{node.lineno}: relative import; write the whole name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if inner in FILES or node.module == "daycare" else node.module


def _allowed(module: str, other: str) -> bool:
    part, its = module.split(".")[1], other.split(".")[1]
    if part == its == "features":
        return _allowed_between(module.split(".")[2:], other.split(".")[2:])
    if part == "features" and its == "cli":
        return module.split(".")[-1].startswith("cli")  # the commands of a capability, which the roof above it runs
    if part == its or its == "__version__":
        return True
    if part == "cli" and its == BESIDE:
        return True
    return its in FLOORS and (FLOORS[its] < FLOORS[part] or (part, its) in SIDEWAYS)


def _allowed_between(mine: list[str], its: list[str]) -> bool:
    """Each capability is by itself, but for the edges that are declared; their list knows all."""
    return not mine or not its or mine[0] == its[0] or (mine[0], its[0]) in BETWEEN_FEATURES


def test_every_part_stands_on_a_floor() -> None:
    unknown = {part for part, _ in _modules()} - FLOORS.keys()
    assert not unknown, f"{unknown}: give each a floor in this table and in doc/contribute/architecture.md"


@pytest.mark.parametrize("part", sorted(FLOORS))
def test_imports_go_down_only(part: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT.parent)}:{line}: daycare.{part} may not import {name}; hand it in from daemon.py"
        for owner, file in _modules()
        if owner == part
        for line, name in _imports(file)
        if name.startswith("daycare.") and not _allowed(_name(file), name)
    ]
    assert not wrong, "\n".join(wrong)


def test_plugins_stand_on_the_seam_and_their_fakes_on_the_testing_kit() -> None:
    plugins = ROOT.parent / "plugins"

    def allowed(file: Path, name: str) -> bool:
        top, *inner = name.split(".")
        if top == "daycare_plugins":
            mine = file.relative_to(plugins).parts[0]
            return not inner or inner[0] == mine or (mine, inner[0]) == ("whatsapp", "bridge")
        return top != "daycare" or not inner or inner[0] in SEAM or (inner[0] == BESIDE and BESIDE in file.parts)

    wrong = [
        f"{file.relative_to(plugins)}:{line}: {name}"
        for file in sorted(plugins.rglob("*.py"))
        for line, name in _imports(file)
        if not allowed(file, name)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_heavy_packages_stay_where_they_belong(package: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT.parent)}:{line}: {package} belongs into {ONLY_IN[package] or 'no core package'}"
        for owner, file in _modules()
        for line, name in _imports(file)
        if name.split(".")[0] == package
        and not (owner == "features" and {file.stem.split("_")[0], file.parent.name} & {*IN_FEATURES.get(package, ())})
        and not any(_name(file).startswith(f"daycare.{it}.") for it in ONLY_IN[package])
    ]
    assert not wrong, "\n".join(wrong)


def test_ground_knows_the_standard_library_and_msgspec_only() -> None:
    import sys

    outside = {
        f"{file.name}:{line}: {name}"
        for owner, file in _modules()
        if owner == "base"
        for line, name in _imports(file)
        if name.split(".")[0] not in sys.stdlib_module_names | {"daycare", "msgspec", "cuid2", "cronsim"}
    }
    assert not outside


def test_no_import_cycles_between_modules() -> None:
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, f"import cycle: {' -> '.join((*above, module))}"
        if module not in done:
            for _, other in _imports(FILES[module]):
                if other in FILES and other != module:
                    visit(other, (*above, module))
            done.add(module)

    for module in FILES:
        visit(module, ())


def test_every_package_is_in_what_gets_installed() -> None:
    """An editable installation, as tests have, finds what an ordinary one would lack."""
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))
    listed = set(project["tool"]["setuptools"]["packages"]) - {"daycare_migrations"}
    there = {
        ".".join((name, *file.parent.relative_to(folder).parts))
        for name, folder in (("daycare", ROOT), ("daycare_plugins", ROOT.parent / "plugins"))
        for file in folder.rglob("__init__.py")
    }
    assert listed == {name for name in there if "skeleton" not in name}


def test_each_module_says_what_it_is_for() -> None:
    mute = [str(file) for _, file in _modules() if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))]
    assert not mute
