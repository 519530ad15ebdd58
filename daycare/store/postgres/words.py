"""Words of memories and documents in PostgreSQL: the same stems, looked up by an index of another kind.

A row of an index has the stems of what it is about as a `tsvector`, made without any of PostgreSQL's dictionaries: the
tokenizer is SQLite's on both engines, and so are the results. Statements about an index are put in other words here.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

Stems = Callable[[str], Sequence[str]]

_STEM_MAX_CHARS: Final = 64
_QUOTED: Final = re.compile(r'"([^"]*)"')
_INSTEAD: Final = {
    "INSERT INTO memory_words (rowid, words) VALUES (?, ?)": (
        "INSERT INTO memory_words (rowid, words) VALUES (?, words_of(?))"
    ),
    "INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', ?, ?)": (
        "DELETE FROM memory_words WHERE rowid = ?"
    ),
    "INSERT INTO documents_text (documents_text, rowid, scope, name, text) VALUES ('delete', ?, ?, ?, ?)": (
        "DELETE FROM documents_text WHERE rowid = ?"
    ),
    "INSERT INTO documents_text (rowid, scope, name, text) VALUES (?, ?, ?, ?)": (
        "INSERT INTO documents_text (rowid, scope, name, text) VALUES (?, parts(?), parts(?), parts(?))"
    ),
}
_UNINDEX: Final = re.compile(
    r"INSERT INTO documents_text \(documents_text, rowid, scope, name, text\) SELECT 'delete', no, .*?"
    r" FROM documents d WHERE (?P<which>no .*)"
)
_RANKED: Final = (
    ("bm25(documents_text, 0, 2, 1)", "t.score"),
    ("documents_text t", "ranked_documents(?1) t"),
    ("documents_text MATCH ?1", "TRUE"),
)


def instead(sql: str) -> tuple[str, tuple[int, ...]]:
    """Return what a statement is in other words, and which of its values are texts for `stemmed`."""
    if sql in _INSTEAD:
        return _INSTEAD[sql], (1, 2, 3) if sql.startswith("INSERT INTO documents_text (rowid") else ()
    if match := _UNINDEX.match(sql):
        return f"DELETE FROM documents_text WHERE rowid IN (SELECT no FROM documents d WHERE {match['which']})", ()
    if _RANKED[0][0] in sql:
        for old, new in _RANKED:
            sql = sql.replace(old, new)
        return sql, (0,)
    return sql, ()


def stemmed(bindings: Sequence[Any], which: Sequence[int], stems: Stems) -> list[Any]:
    """Return values with the stems of those that are texts; of a search with those of each of its words."""
    values = list(bindings)
    for at in which:
        if which == (0,):
            values[at] = _QUOTED.sub(lambda word: " ".join(f'"{each}"' for each in _cut(stems(word[1]))), values[at])
        else:
            values[at] = " ".join(_cut(stems(values[at] or "")))
    return values


def _cut(found: Sequence[str]) -> list[str]:
    return [stem[:_STEM_MAX_CHARS] for stem in found]


TABLES: Final = """
CREATE TABLE memory_words (rowid bigint PRIMARY KEY, words tsvector NOT NULL);
CREATE INDEX memory_words_by_word ON memory_words USING gin (words) WITH (fastupdate = off);
CREATE TABLE documents_text (
    rowid bigint PRIMARY KEY, scope text[] NOT NULL, name text[] NOT NULL, text text[] NOT NULL,
    words tsvector NOT NULL GENERATED ALWAYS AS (array_to_tsvector(name || text)) STORED,
    size bigint NOT NULL GENERATED ALWAYS AS (cardinality(scope) + cardinality(name) + cardinality(text)) STORED
);
CREATE INDEX documents_text_by_word ON documents_text USING gin (words) WITH (fastupdate = off);
CREATE VIEW documents_text_docsize AS SELECT rowid AS id FROM documents_text;
"""

# How many rows there are, and how many words, is counted along: a search reads no more than what it finds.
_TOTAL: Final = """
CREATE TABLE IF NOT EXISTS documents_total (many bigint NOT NULL, size bigint NOT NULL);
INSERT INTO documents_total SELECT count(*), coalesce(sum(size), 0) FROM documents_text
  WHERE NOT EXISTS (SELECT 1 FROM documents_total);
CREATE OR REPLACE FUNCTION count_documents() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP = 'INSERT' THEN UPDATE daycare.documents_total SET many = many + 1, size = size + NEW.size;
  ELSE UPDATE daycare.documents_total SET many = many - 1, size = size - OLD.size; END IF;
  RETURN NULL; END $$;
CREATE OR REPLACE TRIGGER documents_counted AFTER INSERT OR DELETE ON documents_text FOR EACH ROW
  EXECUTE FUNCTION count_documents();
"""

# A search is `scope : ("a" OR "b") AND {name text} : ("c" OR "d")`; the score is that of FTS5's bm25, with its weights.
FUNCTIONS: Final = (
    _TOTAL
    + r"""
CREATE OR REPLACE FUNCTION parts(t text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT array_remove(string_to_array(t, ' '), '') $$;
CREATE OR REPLACE FUNCTION quoted_in(t text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT coalesce(array_agg(DISTINCT m[1]), '{}') FROM regexp_matches(t, '"([^"]+)"', 'g') m $$;
CREATE OR REPLACE FUNCTION ranked_documents(q text) RETURNS TABLE (rowid bigint, score float8) LANGUAGE sql STABLE AS $$
  WITH asked AS (
    SELECT daycare.quoted_in(split_part(q, 'AND {name text}', 1)) AS scopes,
      daycare.quoted_in(split_part(q, 'AND {name text}', 2)) AS terms
  ), every AS (SELECT many::float8 AS many, greatest(size::float8 / greatest(many, 1), 1) AS length
    FROM daycare.documents_total
  ), rare AS (
    SELECT term, greatest(ln((every.many - found.many + 0.5) / (found.many + 0.5)), 1e-6) AS idf
    FROM asked, every, unnest(asked.terms) AS term, LATERAL (SELECT count(*)::float8 AS many
      FROM daycare.documents_text d WHERE d.words @@ quote_literal(term)::tsquery) found
    WHERE found.many > 0
  )
  SELECT d.rowid, -sum(rare.idf * hits.weight * 2.2
      / (hits.weight + 1.2 * (0.25 + 0.75 * d.size / every.length)))
  FROM asked, every, daycare.documents_text d, rare,
    LATERAL (SELECT 2.0 * cardinality(array_positions(d.name, rare.term))
      + cardinality(array_positions(d.text, rare.term)) AS weight) hits
  WHERE d.words @@ (SELECT string_agg(quote_literal(term), ' | ') FROM rare)::tsquery AND d.scope && asked.scopes
  GROUP BY d.rowid
$$;
"""
)
