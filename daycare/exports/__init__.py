"""Exports: an agent with its subtree as one file, and such a file as an agent again. See doc/operate/export.md."""
