"""Capabilities, each in a folder of its own: they know the kernel, and it knows none of them by name."""
