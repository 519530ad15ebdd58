"""Traffic: what moved, and what happened to a message."""
