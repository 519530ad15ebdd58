"""What the store asks SQLite of its file, its schema and its transactions, as PostgreSQL is asked for it.

A page of the file is what PostgreSQL calls a block.
"""

from typing import Final

OF_A_FILE: Final = {
    "PRAGMA page_size": "SELECT 8192::bigint",
    "PRAGMA page_count": "SELECT pg_database_size(current_database()) / 8192",
    "PRAGMA freelist_count": "SELECT 0::bigint",
    "PRAGMA auto_vacuum": "SELECT 0::bigint",
    "PRAGMA auto_vacuum = INCREMENTAL": "SELECT 1::bigint",
    "PRAGMA temp_store = MEMORY": "SELECT 1::bigint",
    "PRAGMA defer_foreign_keys = ON": "SET CONSTRAINTS ALL DEFERRED",
    "SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c"
    " WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!'": (
        "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'daycare'"
    ),
    "PRAGMA user_version": "SELECT version FROM engine",
    "SELECT name FROM sqlite_master WHERE type = 'table'": (
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'daycare'"
    ),
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name": (
        "SELECT 'CREATE TABLE ' || table_name || ' (' || string_agg(column_name || ' ' || data_type, ', '"
        " ORDER BY ordinal_position) || ')' FROM information_schema.columns WHERE table_schema = 'daycare'"
        " GROUP BY table_name ORDER BY table_name"
    ),
    "BEGIN IMMEDIATE": "BEGIN",
    "BEGIN": "BEGIN ISOLATION LEVEL REPEATABLE READ",
}
