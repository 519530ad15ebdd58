"""Tests of config.toml taken anew while the daemon runs."""
