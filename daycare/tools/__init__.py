"""Tools: what a model can do. `runner` runs them, `context` is what they may do, `builtin` holds our own."""
