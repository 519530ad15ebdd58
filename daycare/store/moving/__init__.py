"""Moving a store from one engine to another: every row, compared on both sides, from wherever an earlier try ended."""
