"""Actors: addresses that resolve to agents, mailboxes that survive, and one activation at a time."""
