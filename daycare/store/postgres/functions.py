"""What the store's statements take from SQLite and PostgreSQL has not, or has otherwise: made when the schema is."""

from typing import Final

FUNCTIONS: Final = r"""
CREATE OR REPLACE FUNCTION substr(t text, start bigint, many bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN start >= 0 THEN pg_catalog.substr(t, start::int, greatest(many, 0)::int)
    ELSE pg_catalog.substr(pg_catalog."right"(t, (-start)::int), 1, greatest(many, 0)::int) END $$;
CREATE OR REPLACE FUNCTION substr(t text, start integer, many integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN start >= 0 THEN pg_catalog.substr(t, start, greatest(many, 0))
    ELSE pg_catalog.substr(pg_catalog."right"(t, -start), 1, greatest(many, 0)) END $$;
CREATE OR REPLACE FUNCTION substr(t text, start bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN start >= 0 THEN pg_catalog.substr(t, start::int)
    ELSE pg_catalog."right"(t, (-start)::int) END $$;
CREATE OR REPLACE FUNCTION substr(t text, start integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN start >= 0 THEN pg_catalog.substr(t, start) ELSE pg_catalog."right"(t, -start) END $$;
CREATE OR REPLACE FUNCTION instr(t text, part text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT strpos(t, part)::bigint $$;
CREATE OR REPLACE FUNCTION iif(c boolean, a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN c THEN a ELSE b END $$;
CREATE OR REPLACE FUNCTION iif(c boolean, a text, b text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN c THEN a ELSE b END $$;
CREATE OR REPLACE FUNCTION max(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE greatest(a, b) END $$;
CREATE OR REPLACE FUNCTION min(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE least(a, b) END $$;
CREATE OR REPLACE FUNCTION hex(b bytea) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT upper(encode(b, 'hex')) $$;
CREATE OR REPLACE FUNCTION carray(these bigint[]) RETURNS TABLE (value bigint) LANGUAGE sql IMMUTABLE PARALLEL SAFE
  ROWS 100 AS $$ SELECT unnest(these) $$;
CREATE OR REPLACE FUNCTION json_at(j text, path text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT j::json #> string_to_array(pg_catalog.substr(path, 3), '.') $$;
CREATE OR REPLACE FUNCTION json_each(j text, path text DEFAULT '$') RETURNS TABLE (key text, value text)
  LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10 AS $$
    SELECT e.key, e.value FROM (SELECT CASE WHEN path = '$' THEN j::json ELSE daycare.json_at(j, path) END AS part) p,
      LATERAL pg_catalog.json_each_text(CASE json_typeof(part) WHEN 'object' THEN part END) e
    UNION ALL
    SELECT (e.no - 1)::text, e.value
      FROM (SELECT CASE WHEN path = '$' THEN j::json ELSE daycare.json_at(j, path) END AS part) p,
      LATERAL pg_catalog.json_array_elements_text(CASE json_typeof(part) WHEN 'array' THEN part END)
        WITH ORDINALITY e (value, no) $$;
CREATE OR REPLACE FUNCTION json_extract(j text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT j::json #>> string_to_array(pg_catalog.substr(path, 3), '.') $$;
CREATE OR REPLACE FUNCTION json_array_length(j text, path text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE json_typeof(part) WHEN 'array' THEN pg_catalog.json_array_length(part)::bigint
    WHEN NULL THEN NULL ELSE 0 END FROM (SELECT daycare.json_at(j, path) AS part) p $$;
CREATE OR REPLACE FUNCTION json_texts(VARIADIC these text[]) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT to_json(these)::text $$;
CREATE OR REPLACE FUNCTION json_part(j text, path text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN path LIKE '$.%' THEN daycare.json_extract(j, path) ELSE j::json ->> path END $$;
CREATE OR REPLACE FUNCTION json_part(j text, place integer) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT j::json ->> place $$;
CREATE OR REPLACE FUNCTION plus(a bigint, b boolean) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT a + b::int $$;
CREATE OR REPLACE FUNCTION minus(a bigint, b boolean) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT a - b::int $$;
CREATE OR REPLACE FUNCTION two(a boolean, b boolean) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT a::int::bigint + b::int $$;
CREATE OR REPLACE FUNCTION summed(a bigint, b bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN b IS NULL THEN a ELSE coalesce(a, 0) + b END $$;
CREATE OR REPLACE FUNCTION counted(a bigint, b boolean) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN b IS NULL THEN a ELSE coalesce(a, 0) + b::int END $$;
CREATE OR REPLACE FUNCTION jsoned(a text, b bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN a = '' THEN '' ELSE a || ',' END || coalesce(b::text, 'null') $$;
CREATE OR REPLACE FUNCTION jsoned(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT CASE WHEN a = '' THEN '' ELSE a || ',' END || coalesce(to_json(b)::text, 'null') $$;
CREATE OR REPLACE FUNCTION bracketed(a text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT '[' || a || ']' $$;
CREATE OR REPLACE FUNCTION words_of(w text) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT array_to_tsvector(array_remove(string_to_array(w, ' '), '')) $$;
CREATE OR REPLACE FUNCTION match_words(q text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
  AS $$ SELECT replace(replace(replace(q, '"', ''''), ' AND ', ' & '), ' OR ', ' | ')::tsquery $$;
CREATE OR REPLACE FUNCTION advance(s regclass, key bigint) RETURNS bigint LANGUAGE sql VOLATILE
  AS $$ SELECT CASE WHEN key > coalesce(pg_sequence_last_value(s), 0) THEN setval(s, key) END; SELECT key $$;
"""

# These cannot be replaced, only made once.
ONCE: Final = r"""
CREATE AGGREGATE sum(bigint) (SFUNC = summed, STYPE = bigint, COMBINEFUNC = summed, PARALLEL = SAFE);
CREATE AGGREGATE sum(boolean) (SFUNC = counted, STYPE = bigint, PARALLEL = SAFE);
CREATE AGGREGATE json_group_array(bigint) (SFUNC = jsoned, STYPE = text, INITCOND = '', FINALFUNC = bracketed);
CREATE AGGREGATE json_group_array(text) (SFUNC = jsoned, STYPE = text, INITCOND = '', FINALFUNC = bracketed);
CREATE OPERATOR + (LEFTARG = bigint, RIGHTARG = boolean, FUNCTION = plus);
CREATE OPERATOR - (LEFTARG = bigint, RIGHTARG = boolean, FUNCTION = minus);
CREATE OPERATOR + (LEFTARG = boolean, RIGHTARG = boolean, FUNCTION = two);
CREATE OPERATOR ->> (LEFTARG = text, RIGHTARG = text, FUNCTION = json_part);
CREATE OPERATOR ->> (LEFTARG = text, RIGHTARG = integer, FUNCTION = json_part);
"""
