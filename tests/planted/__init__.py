"""Faults planted into a running daemon, each of which a campaign of the messengers must see."""
