"""The statements of the store, which are written for SQLite, as PostgreSQL takes them.

A statement has one text for both engines. Here its words are changed by rule: marks of values, names that are reserved,
what a conflict is about, the number of a new row. What no rule can change is written so that both engines take it; what
SQLite has as functions is made at opening, see `functions`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from daycare.base.bounded import Bounded
from daycare.store.postgres import words
from daycare.store.postgres.file_statements import OF_A_FILE

_TOKEN: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\?\d*|:[A-Za-z_]\w*|[A-Za-z_]\w*|\s+|\d+(?:\.\d+)?|<>|<=|>=|\|\||->>|->|<<|>>|.""",
    re.DOTALL,
)
NUMBERED: Final = re.compile(r"\bINTEGER PRIMARY KEY( AUTOINCREMENT)?", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z_]\w*\Z")
_MARK: Final = re.compile(r"\?(?P<number>\d*)|(?<!:):(?P<name>[A-Za-z_]\w*)")
_SEVERAL: Final = re.compile(r"/\* nodes: ([^*]*) \*/")  # what counts only where several nodes divide the users
# Before a statement: the server refuses one that does not come to this, so that what comes behind it can rely on it.
ADDS: Final = "/* adds the row with the number of the last value */ "
CHANGES: Final = "/* changes one row */ "
FINDS_NONE: Final = "/* finds no row */ "
WRONG: Final = "22012"  # how it is refused: by a division
_GUESSED: Final = {
    ADDS: "WITH it (number) AS ({text}) SELECT 1 / count(*) FILTER (WHERE number = ${value}) FROM it",
    CHANGES: "WITH it AS ({text}) SELECT 1 / CAST(count(*) = 1 AS int) FROM it",
    FINDS_NONE: "WITH it AS ({text}) SELECT 1 / CAST(count(*) = 0 AS int) FROM it",
}
_KNOWN_MAX: Final = 2_000  # statements; some are made as they are needed
_WRITES: Final = {"INSERT", "UPDATE", "DELETE"}
_ENDS_SUBQUERY: Final = {
    *("WHERE", "ORDER", "GROUP", "LIMIT", "JOIN", "LEFT", "CROSS", "UNION", "ON", "USING", "HAVING", "RETURNING"),
    *(")", "", ",", ";"),
}
_BEFORE_SIGN: Final = {"(", ",", "AND", "OR", "WHERE", "BY", "SELECT"}
_BEFORE_CONDITION: Final = {"WHERE", "AND", "OR", "NOT", "WHEN", "ON", "("}
_AFTER_CONDITION: Final = {"UNION", "RETURNING", "AND", "OR", "THEN", "ORDER", "GROUP", "LIMIT", "BEGIN", ")", "", ";"}


class TableFacts(NamedTuple):
    """What a statement must know of a table: its columns; `number`, the one that a new row gets a number in, if any.

    `once` is what `ON CONFLICT` without a target is about. `flags` are columns with whole numbers.
    """

    columns: tuple[str, ...]
    number: str = ""
    once: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


class Statement(NamedTuple):
    """A statement for PostgreSQL: `order` says which of the values given, by place or name, is each of its own.

    `changes` is the table that it changes, if any. `numbered`: what it returns last is the number of the new row, and
    nothing that was asked for.
    """

    text: str
    order: tuple[int | str, ...]
    changes: str = ""
    numbered: bool = False
    stems: tuple[int, ...] = ()  # which of the values are texts, whose stems are kept


class Dialect:
    """Translates; what it was asked once it remembers, so that it is asked by the hundred."""

    def __init__(self, tables: Mapping[str, TableFacts]) -> None:
        self.tables = tables
        self.typed: set[str] = set()  # statements that do not say of what types their values are
        self._known: Bounded[str, Statement] = Bounded(_KNOWN_MAX)
        self._flags = frozenset(flag for table in tables.values() for flag in table.flags)

    def translate(self, sql: str) -> Statement:
        """Return what a statement of the store is in PostgreSQL."""
        if (known := self._known.get(sql)) is None:
            known = self._known[sql] = self._translated(sql)
        return known

    def _translated(self, sql: str) -> Statement:
        for guess, text in _GUESSED.items():
            if sql.startswith(guess):
                it = self.translate(sql.removeprefix(guess))
                values = (*it.order, -1) if guess == ADDS else it.order
                rows = it.text if it.numbered or guess == FINDS_NONE else f"{it.text} RETURNING 1"
                return it._replace(text=text.format(text=rows, value=len(values)), order=values, numbered=False)
        sql = sql.strip().rstrip(";")
        if (instead := OF_A_FILE.get(sql)) is not None:
            return Statement(instead, ())
        if sql.startswith("CREATE TEMP TABLE"):
            return Statement(table_of(sql), ())
        instead, stems = words.instead(_SEVERAL.sub(r"\1", sql))
        tokens = [each for each in _TOKEN.findall(instead) if not each.startswith("--")]
        verb = _next(tokens, -1)[1].upper()
        table = _table(tokens) if verb in _WRITES else ""
        known = self.tables.get(table)
        tokens = self._reworded(tokens)
        numbered = False
        if known is not None and verb == "INSERT":
            tokens = _conflicts(tokens, table, known)
            numbered = bool(known.number) and "RETURNING" not in tokens
            if numbered:
                given = _names(tokens, known.number)
                tokens.append(f" RETURNING {_number(table, known.number, given=given)}")
        elif known is not None and known.number and sql.startswith(f"UPDATE {table} SET {known.number} ="):
            numbered = True
            tokens.append(f" RETURNING {_number(table, known.number, given=True)}")
        order: list[int | str] = []
        text = "".join(_numbered(tokens, order))
        return Statement(text, tuple(order), table, numbered, stems)

    def value_of(self, table: str, column: str) -> str:
        """Return the statement that reads one value by the number of its row."""
        return f"SELECT {column} FROM {table} WHERE {self.tables[table].number} = ?"

    def condition(self, sql: str) -> str:
        """Return what a condition is in PostgreSQL."""
        return "".join(self._reworded(_TOKEN.findall(sql)))

    def script(self, sql: str) -> list[str]:
        """Return the statements of a script without values, each by itself."""
        parts: list[list[str]] = [[]]
        for word in _TOKEN.findall(sql):
            if word == ";":
                parts.append([])
            else:
                parts[-1].append(word)
        return [text for part in parts if (text := "".join(part).strip())]

    def _reworded(self, tokens: Sequence[str]) -> list[str]:
        found = list(tokens)
        for at, word in enumerate(found):
            if word == "user":
                found[at] = '"user"'
                continue
            if word == "+" and found[_before(found, at)].upper() in _BEFORE_SIGN:
                found[at] = ""  # it keeps SQLite from an index
            if not _WORD.match(word):
                continue
            upper = word.upper()
            if upper in ("TEMP", "MAIN") and found[at + 1 : at + 2] == ["."]:
                found[at : at + 2] = ["pg_temp", "."] if upper == "TEMP" else ["", ""]
            elif upper == "LIKE":
                found[at] = "ILIKE"  # as SQLite's does not look at case
            elif upper == "X" and found[at + 1 : at + 2][0:1] and found[at + 1].startswith("'"):
                found[at : at + 2] = [f"'\\x{found[at + 1][1:]}", "::bytea"]
            elif word in ("packed", "unpacked"):
                found[at] = ""  # a server packs long values by itself
            elif upper == "JSON_ARRAY":
                found[at] = "json_texts"  # a word of its own since 16
            elif upper == "MATCH":
                _matching(found, at)
            elif upper == "LIMIT":
                self._unlimited(found, at)
            elif upper == "IS":
                self._same(found, at)
            elif upper == "IFNULL":
                found[at] = "coalesce"
            elif upper == "GROUP_CONCAT":
                found[at] = "string_agg"
            elif word == "INDEXED":
                _unindexed(found, at)
            elif upper == "CROSS":
                _joined(found, at)
            elif upper in ("FROM", "JOIN"):
                _named(found, at)
            elif upper == "VALUES" and found[_before(found, at)] == "(" and "RECURSIVE" in found:
                _collated(found, at)
            elif upper == "WITHOUT":
                _drop(found, at, 2)
            elif upper == "INSTR":
                closing = _closing(found, _next(found, at)[0])
                if _stands_alone(found, at, closing):
                    found[closing] = ") > 0"
            elif word in self._flags and _is_condition(found, at):
                found[at] = f"{word} <> 0"
        return found

    def _unlimited(self, found: list[str], at: int) -> None:
        one, sign = _next(found, at)
        two, number = _next(found, one)
        if (sign, number) == ("-", "1"):
            found[one], found[two] = "ALL", ""

    def _same(self, found: list[str], at: int) -> None:
        """`IS` compares any two values in SQLite, and NULL as one of them."""
        after, what = _next(found, at)
        turned = what.upper() == "NOT"
        if turned:
            after, what = _next(found, after)
        if what.upper() not in ("NULL", "TRUE", "FALSE", "DISTINCT"):
            found[at] = "IS DISTINCT FROM" if turned else "IS NOT DISTINCT FROM"
            if turned:
                found[_next(found, at)[0]] = ""
        elif what.upper() == "NULL":
            before = _before(found, at)
            if found[before].startswith("?"):  # else nobody knows of what type it is
                found[before] = f"CAST({found[before]} AS text)"


def table_of(sql: str) -> str:
    """Return the statement that makes a table, in PostgreSQL's types and keys."""
    sql = NUMBERED.sub("bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", sql)
    sql = re.sub(r"\bINTEGER\b", "bigint", sql)
    sql = re.sub(r"\bTEXT\b", 'text COLLATE "C"', sql)  # paths are compared by their bytes
    sql = re.sub(r"\bBLOB\b", "bytea", sql).replace("WITHOUT ROWID", "")
    return re.sub(r"\buser\b", '"user"', sql)


def _next(tokens: Sequence[str], at: int) -> tuple[int, str]:
    """Return the next word behind a place, and where it is; nothing at the end."""
    for place in range(at + 1, len(tokens)):
        if tokens[place].strip():
            return place, tokens[place]
    return len(tokens), ""


def _before(tokens: Sequence[str], at: int) -> int:
    return next((place for place in range(at - 1, -1, -1) if tokens[place].strip()), 0)


def _drop(tokens: list[str], at: int, many: int) -> None:
    for _ in range(many):
        tokens[at] = ""
        at = _next(tokens, at)[0]


def _table(tokens: Sequence[str]) -> str:
    """Return the table that a statement changes."""
    at, verb = _next(tokens, -1)
    steps = {"INSERT": "INTO", "DELETE": "FROM", "UPDATE": "UPDATE"}[verb.upper()]
    while at < len(tokens) and tokens[at].upper() != steps:
        at = _next(tokens, at)[0]
    at, name = _next(tokens, at)
    if tokens[at + 1 : at + 2] == ["."]:
        return "" if name.lower() == "temp" else tokens[at + 2]
    return name


def _numbered(tokens: Sequence[str], order: list[int | str]) -> list[str]:
    """Give marks their numbers, as SQLite counts them; each mark is a value of its own, with a type of its own."""
    found: list[str] = []
    last = 0
    for word in tokens:
        mark = None if word[:1] in ("'", '"') else _MARK.search(word)
        if mark is None:
            found.append(word)
            continue
        if mark["name"]:
            order.append(mark["name"])
        else:
            number = int(mark["number"]) if mark["number"] else last + 1
            last = max(last, number)
            order.append(number - 1)
        found.append(word.replace(mark[0], f"${len(order)}"))
    return found


def _closing(tokens: Sequence[str], at: int) -> int:
    """Return where the bracket that opens at a place is closed."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[place], 0)
        if depth == 0:
            return place
    return len(tokens) - 1


def _matching(found: list[str], at: int) -> None:
    """`t MATCH x` looks up the words of a table in its index."""
    before, after = _before(found, at), _next(found, at)[0]
    end = after
    while found[end + 1 : end + 2] == ["."]:  # the column of a table
        end += 2
    found[before] += ".words"
    found[at] = "@@"
    found[after] = f"match_words({found[after]}"
    found[end] += ")"


def _unindexed(found: list[str], at: int) -> None:
    """Which index is best, PostgreSQL decides."""
    before = _before(found, at)
    if found[before].upper() == "NOT":
        _drop(found, before, 2)
    else:
        _drop(found, at, 3)


def _joined(found: list[str], at: int) -> None:
    """`CROSS JOIN` tells SQLite in which order to go; with a condition it is an ordinary one."""
    join = _next(found, at)[0]
    depth = 0
    for place in range(join + 1, len(found)):
        word = found[place].upper()
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0 or (depth == 0 and word in ("WHERE", "JOIN", "ORDER", "GROUP")):
            return
        if depth == 0 and word in ("ON", "USING"):
            found[at] = ""
            return


def _named(found: list[str], at: int) -> None:
    """Every query in FROM has a name in PostgreSQL before 16."""
    opening, word = _next(found, at)
    if word != "(" or _next(found, opening)[1].upper() not in ("SELECT", "WITH", "VALUES"):
        return
    closing = _closing(found, opening)
    if _next(found, closing)[1].upper() in _ENDS_SUBQUERY:
        found[closing] = f") AS these_{at}"


def _stands_alone(found: Sequence[str], at: int, closing: int) -> bool:
    """Whether the call of a function is a condition by itself."""
    before, after = found[_before(found, at)].upper(), _next(found, closing)[1].upper()
    return after in ("AND", "OR") if before == "(" else before in _BEFORE_CONDITION and after in _AFTER_CONDITION


def _collated(found: list[str], at: int) -> None:
    """Give texts that a query begins with the order that columns have."""
    for place in range(at, _closing(found, _next(found, at)[0])):
        if found[place].startswith("?"):
            found[place] += ' COLLATE "C"'


def _number(table: str, column: str, *, given: bool) -> str:
    """Return what a new row's number is; where it was given, the next is one more."""
    number = f"{table}.{column}"
    return f"advance(pg_get_serial_sequence('daycare.{table}', '{column}')::regclass, {number})" if given else number


def _names(tokens: Sequence[str], column: str) -> bool:
    """Whether an INSERT gives a value for a column."""
    opening = next(at for at, word in enumerate(tokens) if word == "(")
    return column in tokens[opening : _closing(tokens, opening)]


def _is_condition(found: Sequence[str], at: int) -> bool:
    """Whether a column stands where something is true or false."""
    before = _before(found, at)
    if found[before] == ".":
        before = _before(found, before - 1)
    if found[before].upper() not in _BEFORE_CONDITION or _next(found, at)[1].upper() not in _AFTER_CONDITION:
        return False
    if found[before] == "(":  # of a list of columns, or of what a function is given, it is none
        return _next(found, at)[1].upper() in ("AND", "OR") or found[_before(found, before)].upper() in ("NOT", "AND")
    return not (found[before].upper() == "AND" and _is_between(found, before))


def _is_between(found: Sequence[str], at: int) -> bool:
    """Whether an AND belongs to a BETWEEN."""
    for place in range(at - 1, -1, -1):
        word = found[place].upper()
        if word == "BETWEEN":
            return True
        if word in ("AND", "OR", "WHERE", "("):
            return False
    return False


def _conflicts(tokens: list[str], table: str, known: TableFacts) -> list[str]:
    """Say what a conflict is about, and whose a column is that stands in what is done about one."""
    found = list(tokens)
    replaces = _next(found, _next(found, -1)[0])
    if replaces[1].upper() == "OR":
        _drop(found, replaces[0], 2)
        new = ", ".join(f"{_quoted(each)} = excluded.{_quoted(each)}" for each in known.columns)
        return [*found, f" ON CONFLICT ({', '.join(map(_quoted, known.once))}) DO UPDATE SET {new}"]
    at = next((at for at, word in enumerate(found) if word.upper() == "CONFLICT"), -1)
    if at < 0:
        return found
    do, word = _next(found, at)
    if word == "(":
        do = _next(found, _closing(found, do))[0]
    update = _next(found, do)
    if update[1].upper() == "NOTHING":
        return found
    if word != "(":
        found[at] = f"CONFLICT ({', '.join(map(_quoted, known.once))})"
    depth = 0
    target = True  # the next column is one that is set
    for place in range(_next(found, update[0])[0] + 1, len(found)):
        word = found[place]
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and word == ",":
            target = True
        elif (word == "=" and target) or (word.upper() == "WHERE" and depth == 0):
            target = False
        elif not target and word.strip('"') in known.columns and "." not in (found[place - 1], *found[place + 1 :][:1]):
            found[place] = f"{table}.{word}"
    return found


def _quoted(name: str) -> str:
    return '"user"' if name == "user" else name
