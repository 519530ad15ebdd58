"""Lists: shopping, errands, what to pack."""
