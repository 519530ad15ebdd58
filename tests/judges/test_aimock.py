"""Both protocols against `aimock`, a mock server from npm that nobody here wrote: where its command `llmock` is there.

npm install --global @copilotkit/aimock
"""

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from daycare.base.messages import Message, Text
from daycare.plugin import InferRequest
from tests.inference.wire import KINDS, REMIND, config, run

COMMAND: Final = shutil.which("llmock")
ANSWERS: Final = [
    {"match": {"userMessage": "hello"}, "response": {"content": "Gr\u00fc\u00dfe, and how are you today?"}},
    {
        "match": {"userMessage": "remind me"},
        "response": {"toolCalls": [{"name": "remind", "arguments": {"x": "tea"}}]},
    },
]

pytestmark = pytest.mark.skipif(COMMAND is None, reason="needs `llmock` on PATH: npm install -g @copilotkit/aimock")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "answers.json").write_text(json.dumps({"fixtures": ANSWERS}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(COMMAND), "--port", str(port), "--fixtures", str(tmp_path / "answers.json"), "--strict"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield f"127.0.0.1:{port}"
        process.terminate()


@pytest.mark.parametrize("protocol", KINDS)
async def test_a_mock_server_of_others_is_understood(address: str, protocol: str) -> None:
    host, _, port = address.partition(":")
    with trio.fail_after(30):
        while True:
            try:
                await (await trio.open_tcp_stream(host, int(port))).aclose()
                break
            except OSError:
                await trio.sleep(0.05)
    made = KINDS[protocol][1](config(protocol, f"http://{address}/v1"))
    try:
        pieces, words = await run(made, _asked("hello"))
        assert words.message.text == "".join(map(str, pieces)) == "Gr\u00fc\u00dfe, and how are you today?"
        _, called = await run(made, _asked("remind me", tools=(REMIND,)))
        [call] = called.message.tool_calls
        assert (call.name, call.arguments, called.finish) == ("remind", {"x": "tea"}, "tools")
    finally:
        await made.aclose()


def _asked(words: str, **more: Any) -> InferRequest:
    return InferRequest(model="some-model", system="Be kind.", messages=(Message("user", (Text(words),)),), **more)
