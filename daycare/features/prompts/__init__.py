"""Prompts: what models were shown, kept small, and made again for people to read."""
