"""Tools: what a model can do. `registry` describes them, `runner` runs them, `builtin` holds our own."""
