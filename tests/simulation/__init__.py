"""Days of life of a whole house in seconds: seeded, on virtual time, with crashes, judged by a ledger kept outside.

`python -m tests.simulation --seed N --days D` replays a run.
"""
