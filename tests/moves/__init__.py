"""Stores that are moved from one engine to another: equal row by row, wherever it was killed on the way."""
