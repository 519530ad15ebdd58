"""Slack's own library takes the fake workspace for Slack, and knows all that the connector sends."""

import gc
import json
import logging
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import trio
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, ButtonElement, SectionBlock
from slack_sdk.models.metadata import Metadata
from slack_sdk.signature import SignatureVerifier
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from daycare.testing.scripted import call, say
from daycare_plugins.slack.events import signature
from daycare_plugins.slack.testing.server import APP_TOKEN, SIGNING_SECRET, TEAM, TOKEN, FakeWorkspace
from tests.judges.slack import faults
from tests.slack.houses import ANN, open_stage, until

DM = "D1ANN"


def client(slack: FakeWorkspace) -> WebClient:
    return WebClient(TOKEN, base_url=f"{slack.url}/")


async def asked(ask: Callable[[], Any]) -> Any:
    with trio.fail_after(60):
        return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)


async def test_the_calls_of_slacks_own_client_are_what_the_fake_takes() -> None:
    async with FakeWorkspace.serve() as slack:
        web = client(slack)
        slack.person(ANN, "Ann")
        for number in range(3):
            slack.channel(f"C{number}X", f"room-{number}")
        slack.list_page = 2
        assert (await asked(web.auth_test))["team_id"] == TEAM
        names = await asked(lambda: [each["name"] for page in web.conversations_list() for each in page["channels"]])
        assert names == ["room-0", "room-1", "room-2"]
        opened = await asked(lambda: web.conversations_open(users=ANN))
        assert opened["channel"]["id"] == DM
        buttons = [ButtonElement(text=label, action_id=label, value=label) for label in ("Tea", "Coffee")]
        blocks = [SectionBlock(text="*Which?*"), ActionsBlock(elements=buttons)]
        key = Metadata(event_type="asked", event_payload={"key": "k1"})
        sent = await asked(lambda: web.chat_postMessage(channel=DM, text="Which?", blocks=blocks, metadata=key))
        [message] = slack.sent(ANN)
        assert (message["metadata"]["event_payload"], sent["ts"]) == ({"key": "k1"}, message["ts"])
        await asked(lambda: web.chat_update(channel=DM, ts=sent["ts"], text="Done", blocks=[]))
        assert (message["text"], message["blocks"]) == ("Done", [])
        await asked(lambda: web.reactions_add(channel=DM, timestamp=sent["ts"], name="tada"))
        history = await asked(lambda: web.conversations_history(channel=DM, limit=5, include_all_metadata=True))
        assert history["messages"][0]["text"] == "Done"
        replies = await asked(lambda: web.conversations_replies(channel=DM, ts=sent["ts"]))
        assert [each["ts"] for each in replies["messages"]] == [sent["ts"]]
        assert (await asked(lambda: web.users_info(user=ANN)))["user"]["id"] == ANN
        file = await asked(lambda: web.files_upload_v2(channel=DM, filename="a.txt", content="four words of text"))
        assert slack.files[file["file"]["id"]].content == b"four words of text"
        await asked(lambda: web.chat_delete(channel=DM, ts=sent["ts"]))
        assert sent["ts"] not in slack.dm(ANN).messages


async def test_slacks_own_client_streams_an_answer_to_the_fake() -> None:
    async with FakeWorkspace.serve() as slack:
        slack.person(ANN, "Ann")
        root = slack.say(ANN, "tell me")["event"]["ts"]
        where = {"channel": DM, "thread_ts": root, "recipient_user_id": ANN, "recipient_team_id": TEAM}

        def stream() -> None:
            found = client(slack).chat_stream(buffer_size=4, **where)
            for words in ("It is ", "**so**", "."):
                found.append(markdown_text=words)
            found.stop()

        await asked(stream)
        assert [each["text"] for each in slack.sent(ANN)] == ["It is **so**."]


async def test_slacks_own_client_reads_what_the_fake_refuses() -> None:
    async with FakeWorkspace.serve() as slack:
        slack.person(ANN, "Ann")
        web = client(slack)
        slack.missing_scopes = {"users:read"}
        for error, ask in {
            "channel_not_found": lambda: web.chat_postMessage(channel="C9NONE", text="hi"),
            "no_text": lambda: web.api_call("chat.postMessage", params={"channel": DM, "text": ""}),
            "message_not_found": lambda: web.chat_update(channel=DM, ts="1.000009", text="x"),
            "invalid_blocks": lambda: web.chat_postMessage(channel=DM, text="x", blocks=[{"type": "section"}]),
            "missing_scope": lambda: web.users_info(user=ANN),
        }.items():
            with pytest.raises(SlackApiError) as refused:
                await asked(ask)
            assert refused.value.response["error"] == error


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves a socket open
async def test_slacks_own_socket_client_is_told_each_event_by_the_fake(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "slack_sdk")
    async with FakeWorkspace.serve() as slack:
        slack.person(ANN, "Ann")
        heard: Queue[SocketModeRequest] = Queue()
        web = WebClient(APP_TOKEN, base_url=f"{slack.url}/")

        def take(link: BaseSocketModeClient, request: SocketModeRequest) -> None:
            heard.put(request)
            link.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))

        link = SocketModeClient(APP_TOKEN, web_client=web)
        link.socket_mode_request_listeners.append(take)
        connecting = link.connect_operation_lock
        await asked(link.connect)
        try:
            slack.say(ANN, "hi")
            slack.command(ANN, "help")
            await until(lambda: slack.links.pushed == 2 and heard.qsize() == 2 and not slack.links.unacknowledged)
            await slack.links.disconnect()
            # It knows what a disconnect asks for. Closed in the midst of that, it would wait for itself.
            await until(lambda: slack.links.opened == 2 and not connecting.locked(), 15)
        finally:
            await asked(link.close)
            del link, web
            gc.collect()  # here, and not in a test that knows nothing of it
        requests = {each.type: each for each in (heard.get_nowait() for _ in range(heard.qsize()))}
        assert set(requests) == {"events_api", "slash_commands"}  # it hands them to ten threads: in any order
        assert requests["events_api"].payload["event"]["text"] == "hi"
        assert not slack.links.wrong


def test_slack_and_we_sign_alike() -> None:
    body = json.dumps({"type": "event_callback", "text": "grüße"}).encode()
    theirs = SignatureVerifier(SIGNING_SECRET)
    stamp = str(int(theirs.clock.now()))
    ours = signature(stamp.encode(), body, SIGNING_SECRET).decode()
    assert theirs.generate_signature(timestamp=stamp, body=body) == ours
    assert theirs.is_valid(body, stamp, ours)
    assert not theirs.is_valid(body + b" ", stamp, ours)


async def test_slacks_own_client_knows_each_call_that_is_made(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        slack, model = stage.slack, stage.model
        slack.channel("C0X", "room-0")
        async with stage.daemon():
            root = slack.dm(ANN)
            root.messages["1.000001"] = {"user": ANN, "ts": "1.000001", "text": "root"}
            model.enqueue(call(("now", {}), text="Let me see."), 3.0, say("It is so."))
            slack.say(ANN, "why?", thread="1.000001")
            await until(lambda: "It is so." in stage.texts(), 60)
            await until(lambda: len(slack.sent(ANN)) == 1, 60)
            model.enqueue(call(("offer_choices", {"choices": ["Tea", "Coffee"]})), say("Which?"))
            slack.say(ANN, "I am thirsty")
            await until(lambda: len(slack.sent(ANN)) == 2, 60)
            model.enqueue(call(("send_file", {"name": "plan.md", "text": "# the plan"})), say("here it is"))
            slack.press(ANN, DM, slack.sent(ANN)[1]["ts"], "Tea")
            await until(lambda: len(slack.sent(ANN)) == 4, 60)
            model.enqueue(call(("list_slack_channels", {"limit": 3})), say("one"))
            slack.say(ANN, "which channels?", files=(slack.file("a.txt", "text/plain", b"words"),))
            await until(lambda: len(slack.sent(ANN)) == 5, 60)
        calls = [(method, params.values) for method, params in slack.calls]
    assert {method for method, _ in calls} >= {
        *(
            "apps.connections.open",
            "auth.test",
            "chat.postMessage",
            "chat.update",
        ),  # and a stream, where there is time
        *("files.getUploadURLExternal", "files.completeUploadExternal", "files.info", "conversations.list"),
        *("users.info", "assistant.threads.setStatus"),
    }
    assert [fault for method, params in calls for fault in faults(method, params)] == []
