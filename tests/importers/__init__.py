"""Importers: what other assistants keep, taken over."""
