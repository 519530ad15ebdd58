"""Upkeep: the end of what is kept no longer, by the daemon's own agent, and of helpers that nobody needs any more."""
