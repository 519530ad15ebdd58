"""Faults planted on purpose into the running product: each must be seen by a campaign or a test that is named."""
