"""The HTTP API: one set of routes for the command line, other programs and later the dashboard. See doc/api.md."""
