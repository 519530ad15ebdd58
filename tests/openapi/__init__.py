"""A daemon against its own description: what it answers over TCP to requests that schemathesis makes of that."""
