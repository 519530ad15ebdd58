"""Backups, restores, upgrades, going back, and removing a person."""
