"""The store on SQLite: the only package that imports apsw."""
