"""Plants a fault into a module of the product while it is imported, and says so.

A fault names a function and an edit of its syntax tree. So it survives that lines move or are written otherwise, and
when the function or what is to be edited is gone, planting fails, loudly: a mutant that changes nothing proves nothing.
What was planted, and that the process came by there, is written into the file that `DAYCARE_MUTANT_MARK` names.
"""

import ast
import importlib.abc
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

MARK = "DAYCARE_MUTANT_MARK"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class PlantError(Exception):
    """There is nothing to plant this into."""


class Edit:
    """A change of a function's syntax tree."""

    def apply(self, function: _Function) -> None:
        """Make it. Raises `PlantError` if the function is not as it should be."""
        raise NotImplementedError


@dataclass(frozen=True)
class Body(Edit):
    """The whole body becomes this code."""

    code: str

    def apply(self, function: _Function) -> None:
        function.body = _parse(self.code)


@dataclass(frozen=True)
class Instead(Edit):
    """Other code stands in the place of the one statement that contains some words; none, if it is empty."""

    words: str
    code: str = ""

    def apply(self, function: _Function) -> None:
        block, index = _statement(function, self.words)
        block[index : index + 1] = _parse(self.code) or [ast.Pass()]


@dataclass(frozen=True)
class Before(Edit):
    """More code stands before the one statement that contains some words."""

    words: str
    code: str

    def apply(self, function: _Function) -> None:
        block, index = _statement(function, self.words)
        block[index:index] = _parse(self.code)


@dataclass(frozen=True)
class After(Edit):
    """More code stands behind the one statement that contains some words."""

    words: str
    code: str

    def apply(self, function: _Function) -> None:
        block, index = _statement(function, self.words)
        block[index + 1 : index + 1] = _parse(self.code)


@dataclass(frozen=True)
class Swap(Edit):
    """An expression is another one, wherever it stands in the function."""

    old: str
    new: str

    def apply(self, function: _Function) -> None:
        old, new = (ast.parse(text, mode="eval").body for text in (self.old, self.new))
        wanted = ast.dump(old)

        class Swapper(ast.NodeTransformer):
            count = 0

            def visit(self, node: ast.AST) -> ast.AST:
                if ast.dump(node) == wanted:
                    self.count += 1
                    return new
                return self.generic_visit(node)

        swapper = Swapper()
        for statement in function.body:
            swapper.visit(statement)
        if not swapper.count:
            raise PlantError(f"{function.name} has no expression {self.old}")


@dataclass(frozen=True)
class Reword(Edit):
    """Other words stand in the texts of the function, its SQL above all; the pattern is a regular expression."""

    pattern: str
    words: str = ""

    def apply(self, function: _Function) -> None:
        count = 0
        for node in (node for statement in function.body for node in ast.walk(statement)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value, changed = re.subn(self.pattern, self.words, node.value)
                count += changed
        if not count:
            raise PlantError(f"{function.name} has no text like {self.pattern!r}")


@dataclass(frozen=True)
class Fault:
    """Edits of one function, `package.module:Class.method` or `package.module:function.inner`."""

    where: str
    edits: tuple[Edit, ...]

    @property
    def module(self) -> str:
        """Return the module's full name."""
        return self.where.partition(":")[0]

    def planted(self, source: str) -> ast.Module:
        """Return the module with the fault in it."""
        tree = ast.parse(source)
        function = self._function(tree)
        documented = ast.get_docstring(function) is not None
        before = ast.dump(function)
        for edit in self.edits:
            edit.apply(function)
        if ast.dump(function) == before:
            raise PlantError(f"{self.where} is as it was")
        function.body[int(documented and ast.get_docstring(function) is not None) : 0] = _parse(
            f"__import__({__name__!r}, fromlist=['reached']).reached()"
        )
        return ast.fix_missing_locations(tree)

    def _function(self, tree: ast.Module) -> _Function:
        here: ast.Module | ast.ClassDef | _Function = tree
        for name in self.where.partition(":")[2].split("."):
            inside: Iterable[ast.AST] = here.body if isinstance(here, ast.Module | ast.ClassDef) else ast.walk(here)
            found = [
                node
                for node in inside
                if isinstance(node, _Function | ast.ClassDef) and node.name == name and node is not here
            ]
            if len(found) != 1:
                raise PlantError(f"{self.where}: {len(found)} times {name}")
            here = found[0]
        if not isinstance(here, _Function):
            raise PlantError(f"{self.where} is no function")
        return here


def install(name: str) -> None:
    """Let the modules of a mutant's faults be imported with them, from now on, in this process."""
    from tests.mutants.table import MUTANTS

    faults = [fault for mutant in MUTANTS if mutant.name == name for fault in mutant.faults]
    if not faults:
        _mark(f"lost: there is no mutant {name}")
        raise PlantError(name)
    sys.meta_path.insert(0, _Finder({fault.module: fault for fault in faults}))


def reached() -> None:
    """Note that the process came by."""
    global _reached
    if not _reached:
        _reached = True
        _mark("reached")


_reached = False


def _mark(line: str) -> None:
    fd = os.open(os.environ[MARK], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{line}\n".encode())
    os.close(fd)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, faults: dict[str, Fault]) -> None:
        self._faults = faults

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        fault = self._faults.get(fullname)
        if fault is None:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
                assert spec.origin is not None
                spec.loader = _Loader(fullname, spec.origin, fault)
                return spec
        return None


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, fault: Fault) -> None:
        super().__init__(fullname, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        """Return the code with the fault; it is kept nowhere."""
        try:
            tree = self._fault.planted(Path(self.path).read_text())
        except PlantError as error:
            _mark(f"lost: {error}")
            raise
        _mark("planted")
        return compile(tree, self.path, "exec", dont_inherit=True)


def _parse(code: str) -> list[ast.stmt]:
    # Within a coroutine, so that `await` and `return` may stand there.
    lines = "\n".join(f"    {line}" for line in code.splitlines())
    wrapped = ast.parse(f"async def _():\n{lines}" if lines else "async def _(): pass").body[0]
    assert isinstance(wrapped, ast.AsyncFunctionDef)
    return wrapped.body if lines else []


def _statement(function: _Function, words: str) -> tuple[list[ast.stmt], int]:
    words = _plain(words)
    found = [(block, index) for block, index in _blocks(function) if words in _text(block[index])]
    # Of statements within each other the innermost.
    inner = [
        (block, index)
        for block, index in found
        if not any(words in _text(deep[at]) for deep, at in _blocks(block[index]))
    ]
    if len(inner) != 1:
        raise PlantError(f"{function.name}: {len(inner)} statements with {words!r}")
    return inner[0]


def _blocks(node: ast.AST) -> Iterator[tuple[list[ast.stmt], int]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            for index, statement in enumerate(block):
                yield block, index
                yield from _blocks(statement)
    for more in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield from _blocks(more)


def _text(statement: ast.stmt) -> str:
    return _plain(ast.unparse(statement))


def _plain(code: str) -> str:
    """Return code with one kind of quotes: which of them stands there says nothing."""
    return code.replace('"', "'")
