"""The fake Telegram server in a process of its own: driven over HTTP, or by a human at the keyboard."""

import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

TOKEN = "42:process-token"


@contextmanager
def started(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client, str]]:
    """Start the server, and yield it with a client and the URL of its root."""
    server = "daycare_plugins.telegram.testing.server"
    command = [sys.executable, "-m", server, "--port", "0", "--token", TOKEN, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    try:
        url = process.stdout.readline().strip()
        assert url.endswith("/bot")
        with httpx.Client(base_url=url.removesuffix("/bot"), trust_env=False, verify=False, timeout=20) as client:
            yield process, client, f"/bot{TOKEN}"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_the_control_endpoint_does_what_tests_in_other_processes_want() -> None:
    with started("--control") as (process, client, bot):

        def control(verb: str, **wanted: Any) -> Any:
            answer = client.post(f"/control/{verb}", json=wanted)
            assert answer.status_code == 200, answer.text
            return answer.json()

        assert control("person", id=5, first_name="Ann") == {"id": 5}
        assert control("group", id=-100200, title="Team", forum=True) == {"id": -100200}
        thread = control("topic", chat=-100200, name="Cooking", by=5)
        said = control("say", chat=5, person=5, text="hi")
        control("edit", chat=5, message=said["id"], text="hello")
        control("document", chat=-100200, person=5, content=b64encode(b"abc").decode(), name="a.txt", thread=thread)
        control("raw_update", update={"nonsense": 1})
        updates = client.get(f"{bot}/getUpdates").json()["result"]
        assert [sorted(update.keys() - {"update_id"})[0] for update in updates] == [
            *("message", "message", "edited_message", "message", "nonsense")
        ]
        keyboard = '{"inline_keyboard":[[{"text":"a","callback_data":"b"}]]}'
        sent = client.post(f"{bot}/sendMessage", data={"chat_id": "5", "text": "x", "reply_markup": keyboard}).json()
        query = control("press", chat=5, message=sent["result"]["message_id"], data="b")
        assert client.post(f"{bot}/answerCallbackQuery", json={"callback_query_id": query}).json()["ok"]
        control("fault", method="sendMessage", status=500, description="Oops", times=1, chat=5)
        assert client.post(f"{bot}/sendMessage", json={"chat_id": 5, "text": "y"}).status_code == 500
        control("set", next_update_id=1000)
        assert client.get(f"{bot}/getUpdates", params={"offset": updates[-1]["update_id"] + 2}).json()["result"] == []
        state = control("state")
        assert state["sent"] == {"5": 1, "-100200": 0} and state["answered_callbacks"][0]["data"] == "b"
        assert (state["confirmed"], state["waiting"]) == (updates[-1]["update_id"] + 2, 0)
        shown = control("messages", chat=5)
        assert [(note["text"], note["by_bot"], note["edits"]) for note in shown] == [
            *(("hello", False, ["hi"]), ("x", True, []))
        ]
        control("set", away=True)
        with pytest.raises(httpx.HTTPError):
            client.get(f"{bot}/getMe")
        control("set", away=False)
        assert client.get(f"{bot}/getMe").json()["ok"]
        control("set", limits={"chat_per_s": 5})
        assert [call["method"] for call in control("calls", after=4)] == ["getUpdates", "getMe"]
        for verb, wanted in (("fly", {}), ("say", {}), ("set", {"token": "x"}), ("edit", {"chat": 1, "message": 1})):
            assert client.post(f"/control/{verb}", json=wanted).status_code == 400
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_a_human_can_chat_with_a_bot() -> None:
    with started("--chat") as (process, client, bot):
        assert process.stdin is not None and process.stdout is not None
        assert "!press" in process.stdout.readline()
        process.stdin.write("hello bot\n")
        process.stdin.flush()
        (update,) = client.get(f"{bot}/getUpdates", params={"timeout": 10}).json()["result"]
        assert update["message"]["text"] == "hello bot"
        keyboard = {"inline_keyboard": [[{"text": "Yes", "callback_data": "y"}]]}
        message = {"chat_id": update["message"]["chat"]["id"], "text": "Sure?\nReally?", "reply_markup": keyboard}
        assert client.post(f"{bot}/sendMessage", json=message).json()["ok"]
        assert [process.stdout.readline() for _ in range(3)] == ["< Sure?\n", "  Really?\n", "  [Yes] y\n"]
        process.stdin.write("!press n\n!press y\n!edit goodbye\n!file /no/such/file\n!quit\n")
        process.stdin.flush()
        assert process.wait(10) == 0
        assert [process.stdout.readline()[:2] for _ in range(2)] == ["! ", "! "]
