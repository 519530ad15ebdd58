"""Fakes that speak the real wire protocols, and a clock whose days pass at once. For tests of ours and of plugins."""
