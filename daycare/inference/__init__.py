"""Models: the pool that chooses one, and the providers that answer."""
