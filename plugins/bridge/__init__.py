"""Bridges: messengers that are connected by processes of their own, which speak JSON lines."""
