"""Vectors of texts: made, stored and compared."""
