"""The store-faults campaign: a daemon whose database fails at one place after the other, and a count of the harm."""
