"""Long campaigns of the Telegram connection: a real daemon and a fake Telegram, judged from outside of both."""
