"""A Slack workspace over real sockets, for tests: `server.FakeWorkspace`."""
