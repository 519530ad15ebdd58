"""Facts: what workers learn from the log of what was said."""
