"""Importers: what other assistants keep on a disk, read and taken over."""
