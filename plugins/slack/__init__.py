"""Slack, over Socket Mode or the Events API: people talk to agents there, and agents may write to its channels."""
