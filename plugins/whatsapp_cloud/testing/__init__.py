"""A Graph API for WhatsApp over a real socket, for tests: `server.FakeGraph`."""
