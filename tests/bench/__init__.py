"""Benchmarks: `python -m tests.bench NAME`; see doc/contribute/benchmarks.md."""
