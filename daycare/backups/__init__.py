"""Backups of a home: made while it is in use, checked before they count, and put back."""
