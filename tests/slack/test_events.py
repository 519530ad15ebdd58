"""Events over HTTP: only what Slack has signed, and not long ago, comes in; it is committed before it is answered."""

import json
from pathlib import Path
from urllib.parse import urlencode

import httpx
import trio

from daycare.testing.scripted import say
from daycare_plugins.slack.events import signature
from daycare_plugins.slack.testing.server import SIGNING_SECRET
from tests.slack.houses import ANN, Stage, health, open_stage, until
from tests.whatsapp_cloud.houses import free_port


def headers(stage: Stage, body: bytes, secret: str = SIGNING_SECRET, age_s: int = 0) -> dict[str, str]:
    stamp = str(stage.clock.now_ms() // 1000 - age_s).encode()
    return {"X-Slack-Request-Timestamp": stamp.decode(), "X-Slack-Signature": signature(stamp, body, secret).decode()}


async def test_only_what_slack_has_signed_lately_comes_in_once(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/slack"
    async with open_stage(tmp_path) as stage, httpx.AsyncClient() as client:
        stage.slack.over_http = True

        async def post(body: bytes, **how: str | int) -> httpx.Response:
            return await client.post(url, content=body, headers=headers(stage, body, **how))  # type: ignore[arg-type]

        async with stage.daemon(events_url="https://bot.example/slack", listen=f"127.0.0.1:{port}") as house:
            await until(lambda: health(house)["reason"] == "Slack has not called yet")
            challenge = await post(json.dumps({"type": "url_verification", "challenge": "3eZbrw1a"}).encode())
            assert (challenge.status_code, challenge.text) == (200, "3eZbrw1a")
            stage.slack.say(ANN, "hi")
            stage.slack.command(ANN, "help")
            event = json.dumps(stage.slack.outbox[0][1]).encode()
            assert (await client.post(url, content=event)).status_code == 401
            assert (await post(event, secret="another")).status_code == 403
            assert (await post(event, age_s=301)).status_code == 403
            assert not stage.model.history
            stage.model.enqueue(say("hello"))
            assert [(await post(event)).status_code for _ in range(2)] == [200, 200]
            await stage.sent(1)
            assert (await post(urlencode(stage.slack.outbox[1][1]).encode())).status_code == 200
            assert "/help" in (await stage.sent(2))["text"]
            with trio.fail_after(5):
                while await house.store.outbox.count():
                    await trio.sleep(0.02)
        assert health(house)["state"] == "up"
        assert len(stage.model.history) == 1
