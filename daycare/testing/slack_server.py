"""A Slack Web API over a real socket, for tests: `auth.test` alone, as strict as the real one.

async with FakeSlack.serve() as slack:
    slack.tokens["xoxb-1234567890-abc"] = ""              # good
    slack.tokens["xoxb-1234567890-old"] = "token_revoked"
    ...  # slack_url = slack.url
    assert slack.asked == 1
"""

import msgspec
import trio

from daycare.testing.http_server import HttpRequest, HttpServer, ServerConnection


class FakeSlack(HttpServer):
    """The server. `tokens` are those it knows, with the error that each gets; `asked` counts calls. `scopes` are those
    of each, None where it does not tell.

    `status` is another one than 200, `raw` is answered as it stands, `silent` leaves a call without an answer.
    """

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.url = f"{self.origin}/api"
        self.tokens: dict[str, str] = {}
        self.asked = 0
        self.scopes: str | None = "channels:read,groups:read,chat:write,users:read"
        self.status = 200
        self.raw = b""
        self.silent = False

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        self.asked += 1
        if self.silent:
            await trio.sleep_forever()
        found = self.raw or msgspec.json.encode(self._said(request))
        scopes = {} if self.scopes is None else {"X-OAuth-Scopes": self.scopes}
        return await connection.answer(self.status, found, {"Content-Type": "application/json; charset=utf-8"} | scopes)

    def _said(self, request: HttpRequest) -> dict[str, object]:
        """Return what Slack says: 200 whatever it is, as it does."""
        if request.path != "/api/auth.test":
            return {"ok": False, "error": "unknown_method"}
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if request.method != "POST" or kind != "Bearer" or not token:
            return {"ok": False, "error": "not_authed"}
        error = self.tokens.get(token, "invalid_auth")
        if error:
            return {"ok": False, "error": error}
        return {"ok": True, "url": "https://acme.slack.com/", "team": "Acme", "user": "bot", "team_id": "T12345678",
                "user_id": "W12345678", "bot_id": "B12345678", "is_enterprise_install": False}  # fmt: skip
