"""Tests of the agent's own parts."""
