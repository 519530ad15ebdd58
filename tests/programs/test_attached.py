"""Pictures and files in a request: they come with it, and nothing is fetched."""

import base64
from typing import Any

import pytest

from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import Image
from daycare.features.openai import OPENAI_BODY_MAX_BYTES
from tests.programs.conftest import CHAT, PNG, RESPONSES, Programs, words

TEXT = "data:text/plain;base64," + base64.b64encode(b"the code is 4711").decode()


def content(*parts: Any) -> Any:
    return {"role": "user", "content": list(parts)}


async def test_a_picture_and_a_file_come_with_the_message(programs: Programs) -> None:
    await programs.chat(
        content(
            {"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": PNG, "detail": "auto"}},
            {"type": "file", "file": {"filename": "code.txt", "file_data": TEXT}},
        ),
    )
    last = programs.house.model.history[-1].messages[-1]
    shown = str(last.parts)
    assert "what is it?" in shown and "the code is 4711" in shown and "picture-2.png" in shown
    await programs.chat(content({"type": "image_url", "image_url": {"url": PNG}}))
    assert programs.house.model.history[-1].messages[-1].role == "user", "a picture alone is a message, too"


async def test_a_picture_of_before_is_named(programs: Programs) -> None:
    await programs.chat(content({"type": "image_url", "image_url": {"url": PNG}}), "and now?")
    assert programs.house.model.history[-1].messages[0].text == "[a picture]"


async def test_a_response_takes_them_in_its_own_words(programs: Programs) -> None:
    wish = {
        "model": "daycare",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "what is it?"},
                    {"type": "input_image", "image_url": PNG, "detail": "low"},
                    {"type": "input_file", "filename": "code.txt", "file_data": TEXT},
                ],
            }
        ],
    }
    answer = await programs.call("POST", RESPONSES, wish)
    assert answer.status_code == 200, answer.text
    assert "the code is 4711" in str(programs.house.model.history[-1].messages[-1].parts)
    assert not any(isinstance(part, Image) for part in programs.house.model.history[-1].messages[-1].parts)


@pytest.mark.parametrize(
    ("part", "code", "says"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
            "PART_ELSEWHERE",
            "nothing is fetched",
        ),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "PART_ELSEWHERE", "nothing is fetched"),
        ({"type": "image_url", "image_url": {"url": "data:image/png,abc"}}, "PART_INVALID", "base64"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,%%"}}, "PART_INVALID", "base64"),
        ({"type": "file", "file": {"file_id": "file-1"}}, "PART_ELSEWHERE", "data: URL"),
        ({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}, "BODY_INVALID", "input_audio"),
        ({"type": "video_url", "video_url": {"url": "x"}}, "BODY_INVALID", "video_url"),
    ],
)
async def test_a_part_that_is_unknown_or_elsewhere_is_refused(
    programs: Programs, part: Any, code: str, says: str
) -> None:
    found = await programs.chat(content({"type": "text", "text": "hi"}, part), status=400)
    assert found["error"]["code"] == code and says in found["error"]["message"], found
    assert not programs.house.model.history


async def test_what_is_too_large_is_refused(programs: Programs) -> None:
    large = "data:image/png;base64," + base64.b64encode(b"x" * (FILE_MAX_BYTES + 1)).decode()
    found = await programs.chat(content({"type": "image_url", "image_url": {"url": large}}), status=400)
    assert found["error"]["code"] == "FILE_TOO_LARGE"
    answer = await programs.call("POST", CHAT, {"model": "x" * OPENAI_BODY_MAX_BYTES})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
    many = [{"type": "image_url", "image_url": {"url": PNG}}] * 11
    assert "10 fit" in (await programs.chat(content(*many), status=400))["error"]["message"]
    assert words(await programs.chat("hi")) == "echo: hi"
