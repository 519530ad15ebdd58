"""The HTTP API: one set of routes for the command line and other programs. See doc/extend/api.md."""
