"""Tools: what a model can do. `catalogue` knows them, `runner` runs them; `builtin` holds our own."""
