"""The durable half of the daemon: `records` is what it hands out, `sqlite.store` what it promises and how."""
