"""A Telegram Bot API server over a real socket, for tests: `server.FakeTelegram`."""
