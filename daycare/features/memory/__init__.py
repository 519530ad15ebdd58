"""Memory: what was said and what was learned from it, documents, and what of both comes back into a prompt."""
