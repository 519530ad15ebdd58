"""Exports: an agent with its whole subtree as one file, and such a file as an agent again. See doc/export.md."""
