"""Benchmarks: `python -m tests.bench NAME`; see doc/benchmarks.md."""
