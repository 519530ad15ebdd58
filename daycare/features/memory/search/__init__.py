"""Search: what of memory fits a question."""
