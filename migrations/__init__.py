"""Forward-only schema migrations, `NNNN_name.sql`, importable as data of `daycare_migrations`."""
