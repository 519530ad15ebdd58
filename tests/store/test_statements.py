"""The text of statements is made of constants: what comes from outside is bound, and can be no part of it.

Looks at each statement that the store runs and where its parts come from: through variables, conditions and loops of
its function, and through functions that return parts of statements or are given them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import daycare.store.sqlite

STORE = Path(daycare.store.sqlite.__file__).parent
FEATURES = STORE.parents[1] / "features"
FILES = sorted([*STORE.glob("*.py"), *(file for file in FEATURES.rglob("*.py") if "store.sqlite" in file.read_text())])
DATABASE = re.compile(r"(.*[._])?(db|reader|tx|then|now|reading)")
RUN = ("execute", "executemany", "run", "one", "insert", "changes_one", "rare", "find", "fetch", "count")
OF_TEXT = ("join", "format", "split", "strip", "items", "values", "get")
NOT_CONSTANT = {
    ("database.py", "execute"): "hands on what it is given",
    ("database.py", "migrate"): "the migrations themselves",
    ("inspection.py", "_newest"): "what capabilities declare of their tables",
    ("inspection.py", "tables_in"): "the tables of the file's own schema, quoted",
    ("purging.py", "_person"): "the tables of our own schema",
    ("purging.py", "_purge"): "the tables of our own schema",
    ("purging.py", "look"): "the tables of our own schema",
    ("purging.py", "purge"): "the tables of our own schema",
    ("scrub.py", "merge"): "the indexes of our own schema",
    ("scrub.py", "recover"): "the indexes of our own schema",
    ("rows_overview.py", "summed"): "one of three groups and two conditions, with the path that goes with it",
    ("rows.py", "spent"): "one of two conditions, with the path that goes with it",
    ("upkeep.py", "_delete_own"): "what capabilities declare of their tables",
    ("upkeep.py", "_is_anywhere"): "what capabilities declare of their tables",
    ("upkeep.py", "run"): "a number of pages",
    ("upkeep.py", "system"): "what capabilities declare of their tables",
}
GIVEN = {  # these run what they are given, and are looked at wherever they are called
    ("database.py", "count"),
    ("sql.py", "fetch"),
    ("sql.py", "find"),
    ("sql.py", "one"),
    ("writer.py", "one"),
    ("writer.py", "rare"),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_constant(name: str) -> bool:
    return name.strip("_").isupper()


class Statements:
    """The statements of one file. `parts` are the arguments of its functions that become parts of statements."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self.above = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                self.functions.setdefault(node.name, []).append(node)
        self.parts: set[tuple[str, str]] = set()
        self.asked: set[ast.AST] = set()

    def strange(self) -> set[tuple[str, str]]:
        """Return what is no constant, and in which function."""
        found: set[tuple[str, str]] = set()
        known = -1
        while known != len(self.parts):
            known = len(self.parts)
            for call in [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]:
                for text in self.texts(call):
                    self.asked.clear()
                    if not self.fits(text):
                        found.add((ast.unparse(text), getattr(self.around(text), "name", "")))
        for function, part in self.parts:
            inner = all(isinstance(self.around(each), Function) for each in self.functions[function])
            if not (function.startswith("_") or inner):
                found.add((part, function))  # other files may call it
        return found

    def texts(self, call: ast.Call) -> Iterator[ast.expr]:
        """Yield the arguments of a call that are, or become, text of a statement."""
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        of = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        runs = name in RUN[:2] or (name in RUN[-2:] and not of)
        if runs or (name in RUN[2:-2] and (of in ("tx", "self._tx") or is_constant(of.rpartition(".")[2]))):
            yield from [each for each in call.args if not DATABASE.fullmatch(ast.unparse(each))][:1]
        elif name == "Select":
            yield from call.args[:2]
        elif name in self.functions:
            parts = {part for function, part in self.parts if function == name}
            for function in self.functions[name]:
                names = [it.arg for it in function.args.args if it.arg != "self"]
                given = dict(zip(names, call.args, strict=False)) | {it.arg: it.value for it in call.keywords if it.arg}
                yield from [given[part] for part in parts & given.keys()]

    def fits(self, it: ast.AST) -> bool:
        """Whether an expression is made of constants."""
        if it in self.asked:
            return True
        self.asked.add(it)
        match it:
            case ast.Constant():
                return True
            case ast.JoinedStr():
                return all(self.fits(each.value) for each in it.values if isinstance(each, ast.FormattedValue))
            case ast.Name(id=name) | ast.Attribute(attr=name) if is_constant(name):
                return True
            case ast.Name(id=name):
                return self.variable(name, it)
            case ast.Attribute(attr="_statement"):  # of a `Select`: made of what it is given
                return True
            case ast.Attribute(value=whole) if ast.unparse(whole) != "self":
                return self.fits(whole)
            case ast.Subscript(value=whole) | ast.Starred(value=whole) | ast.BinOp(left=whole, op=ast.Mult()):
                return self.fits(whole)
            case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, op=ast.Add(), right=other):
                return self.fits(one) and self.fits(other)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.BoolOp(values=parts):
                return all(map(self.fits, parts))
            case ast.Dict(keys=keys):
                return all(key is not None and self.fits(key) for key in keys)
            case ast.GeneratorExp(elt=each) | ast.ListComp(elt=each):
                return self.fits(each)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                inside = [node for function in self.functions[name] for node in ast.walk(function)]
                returned = [node.value for node in inside if isinstance(node, ast.Return)]
                return all(self.fits(value) for value in returned if value is not None)  # what it is given: `texts`
            case ast.Call(func=ast.Name(id="marks" | "len")):
                return True
            case ast.Call(func=ast.Name(id="insert_into" | "delete_older"), args=given):
                return all(map(self.fits, given))
            case ast.Call(func=ast.Attribute(value=whole, attr=name), args=given) if name in OF_TEXT:
                return self.fits(whole) and all(map(self.fits, given))
        return False

    def variable(self, name: str, node: ast.AST) -> bool:
        """Whether all that a variable is set to is made of constants; an argument is looked at where it is given."""
        around = self.around(node)
        if around is None:
            return False
        for loop in getattr(around, "generators", ()):
            if name in names_of(loop.target):
                return self.fits(loop.iter)
        if isinstance(around, Function):
            if name in {it.arg for it in (*around.args.args, *around.args.kwonlyargs)}:
                self.parts.add((around.name, name))
                return True
            if values := [*set_to(around, name)]:
                return all(map(self.fits, values))
        return self.variable(name, around)

    def around(self, node: ast.AST) -> ast.AST | None:
        """Return the function or comprehension around something."""
        around = self.above.get(node)
        while around is not None and not isinstance(around, Function | ast.ListComp | ast.GeneratorExp | ast.DictComp):
            around = self.above.get(around)
        return around


def names_of(target: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def set_to(function: ast.AST, name: str) -> Iterator[ast.expr]:
    """Yield what a variable is set to."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                yield from [value for target, value in zip(targets, values, strict=True) if name in names_of(target)]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.IfExp(body=one, orelse=other)):
                both = [part.elts if isinstance(part, ast.Tuple) else [part] * len(targets) for part in (one, other)]
                for target, *values in zip(targets, *both, strict=True):
                    yield from values if name in names_of(target) else ()
            case (
                ast.Assign(targets=[target], value=ast.expr() as value)
                | ast.For(target=target, iter=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ) if name in names_of(target):
                yield value
            case ast.Call(func=ast.Attribute(value=ast.Name(id=other), attr="append"), args=[value]) if other == name:
                yield value


def test_statements_of_the_store_are_made_of_constants() -> None:
    strange = [(file.name, *each) for file in FILES for each in Statements(file.read_text()).strange()]
    known = NOT_CONSTANT.keys() | GIVEN
    assert [(file, part, function) for file, part, function in strange if (file, function) not in known] == []
    assert known == {(file, function) for file, _, function in strange}, "an exception that is needed no more"


HELPER = """
def _private(db, where):
    db.execute(f"SELECT 1 FROM agents WHERE {where}")

def of(db, tx, name, it):
    """


@pytest.mark.parametrize(
    "body",
    [
        "db.execute(f'SELECT {name} FROM agents')",
        "db.execute('SELECT id FROM agents WHERE id = ' + name)",
        "db.execute('SELECT id FROM agents WHERE id = %s' % name)",
        "db.execute('SELECT id FROM {}'.format(name))",
        "tx.run(f'DELETE FROM agents WHERE id = {it.id}')",
        "self._tx.run(f'DELETE FROM agents WHERE id = {it}', ())",
        "what = 'id' if it else name; tx.one(f'SELECT {what} FROM agents')",
        "what = ['id']; what.append(it.name); fetch(db, f'SELECT {what[0]} FROM agents')",
        "AGENTS.find(db, f'path = {name!r}', (it,))",
        "[AGENTS.one(db, f'id = {each}') for each in it]",
        "_private(db, f'id = {it.id}')",
        "insert = insert_into(name, COLUMNS); tx.run(insert)",
    ],
)
def test_what_is_given_from_outside_is_seen_in_a_statement(body: str) -> None:
    assert Statements(HELPER + body).strange()


def test_a_part_of_a_statement_is_no_argument_that_any_file_may_give() -> None:
    source = "class Agents:\n    def find(self, path):\n        AGENTS.find(self.db, f'path = {path}')\n"
    assert Statements(source).strange() == {("path", "find")}


@pytest.mark.parametrize(
    "body",
    [
        "db.execute(f'SELECT {COLUMNS} FROM agents WHERE id IN ({marks(it)})', it)",
        "tx.run(f'DELETE FROM agents WHERE {rows.MINE}', (name,))",
        "what = 'id = ?' if it else 'path = ?'; AGENTS.one(db, what, (name,))",
        "[db.execute(f'DELETE FROM {table}') for table in TABLES]",
        "_private(db, 'id = ?')",
    ],
)
def test_constants_and_marks_may_be_parts_of_a_statement(body: str) -> None:
    assert Statements(HELPER + body).strange() == set()
