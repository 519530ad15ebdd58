"""The durable half of the daemon. `contract` says what a store does, `records` what it hands out, `sqlite` does it."""
