"""What the store keeps of memories: `rows.MemoryRows` in parts, one for what each is about."""
