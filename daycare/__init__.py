"""daycare: a self-hosted daemon for personal AI agents with durable inboxes."""

__version__ = "0.1.0"
