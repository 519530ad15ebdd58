"""The store on PostgreSQL: what differs from SQLite, and nothing else. The only package that imports psycopg."""
