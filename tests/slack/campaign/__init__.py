"""Campaigns of the Slack connection."""
