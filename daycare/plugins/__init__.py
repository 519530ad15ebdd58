"""Plugins: finding them, judging whether they fit, giving them what they may touch, and keeping them alive."""
