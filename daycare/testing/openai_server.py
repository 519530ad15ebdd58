"""A model server that speaks OpenAI's Chat Completions over a real socket, and says what a test tells it to.

    async with FakeOpenAI.serve() as server:
        server.enqueue("Hello.")
        server.enqueue("slow down", status=429, headers={"Retry-After": "7"})
        ...  # a provider with base_url=server.base_url
        assert server.history[0].body["messages"][-1]["content"] == "hi"

It is as strict as the real one about the order of tool calls and results. By hand, with a small model that streams
and sets reminders: `python -m daycare.testing.openai_server --port 8123`.
"""

import argparse
import re
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from daycare.base.messages import REMINDER
from daycare.testing import openai_audio as audio
from daycare.testing.http_server import HttpRequest
from daycare.testing.model_server import (
    MODELS,
    Answering,
    FakeModelServer,
    Received,
    ScriptedAnswer,
    ScriptedCall,
    echo,
    last_user_text,
    said,
)

__all__ = ["MODELS", "FakeOpenAI", "Received", "ScriptedAnswer", "ScriptedCall", "demo", "echo"]


class FakeOpenAI(FakeModelServer):
    """The server; see `FakeModelServer`. `with_usage` False leaves the counts of tokens out, as some servers do.

    It `hear`s what is uploaded and `speak`s in a format, where the script does not say how that goes.
    """

    url_path = "/v1"

    def __init__(self, port: int = 0, reply: Answering = echo) -> None:
        super().__init__(port, reply)
        self.with_usage = True
        self.hear: audio.Hear = lambda upload: ""
        self.speak: audio.Speak = audio.tone

    def _choose(self, request: HttpRequest) -> tuple[dict[str, Any], ScriptedAnswer]:
        if not request.path.startswith(audio.AUDIO) or request.method != "POST":
            return super()._choose(request)
        it = audio.asked(request)
        size = {} if it.upload is None else {"file": it.upload.filename, "bytes": len(it.upload.content)}
        received = Received(method="POST", path=request.path, headers=request.headers, body=it.body | size)
        self.history.append(received)
        if self.api_key is not None and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return it.body, ScriptedAnswer(status=401, text="Incorrect API key provided")
        if it.refused is not None:
            return it.body, it.refused
        scripted = self._script.popleft() if self._script else None
        if scripted is not None and (scripted.status != 200 or scripted.raw is not None):
            return it.body, scripted
        answer = self._sound(it, scripted)
        return it.body, answer if scripted is None else replace(answer, delay_s=scripted.delay_s)

    def _sound(self, it: audio.AudioCall, scripted: ScriptedAnswer | None) -> ScriptedAnswer:
        if it.upload is None:
            return audio.spoken(it, self.speak(str(it.body["input"]), str(it.body.get("response_format", "mp3"))))
        text = self.hear(it.upload) if scripted is None else scripted.text
        return audio.heard(it, text, len(it.upload.content) / 16_000)

    def _route(self, method: str, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> ScriptedAnswer | None:
        if self.api_key is not None and headers.get("authorization") != f"Bearer {self.api_key}":
            return ScriptedAnswer(status=401, text="Incorrect API key provided")
        if (method, path) == ("GET", "/v1/models"):
            data = [{"id": model, "object": "model"} for model in MODELS]
            kind = {"Content-Type": "application/json"}
            return ScriptedAnswer(raw=msgspec.json.encode({"object": "list", "data": data}), headers=kind)
        if (method, path) != ("POST", "/v1/chat/completions"):
            return ScriptedAnswer(status=404, text=f"Unknown request: {method} {path}")
        wrong = _wrong(body)
        return ScriptedAnswer(status=400, text=wrong) if wrong else None

    def _error(self, answer: ScriptedAnswer) -> dict[str, Any]:
        return {"error": {"message": answer.text, "type": "error", "code": str(answer.status)}}

    def _whole(self, body: dict[str, Any], answer: ScriptedAnswer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.tool_calls:
            message["tool_calls"] = [self._call(call) for call in answer.tool_calls]
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        return _head(body) | {"object": "chat.completion", "choices": [choice], "usage": _usage(body, answer)}

    def _stream(self, body: dict[str, Any], answer: ScriptedAnswer) -> Iterator[bytes]:
        for frame in self._frames(body, answer):
            yield b"data: " + msgspec.json.encode(frame) + b"\n\n"
        if answer.finish != "":
            yield b"data: [DONE]\n\n"

    def _frames(self, body: dict[str, Any], answer: ScriptedAnswer) -> Iterator[dict[str, Any]]:
        def frame(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
            return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        head = _head(body) | {"object": "chat.completion.chunk"}
        yield frame({"role": "assistant", "content": ""})
        for word in re.findall(r"\S+\s*|\s+", answer.thinking):
            yield frame({"reasoning_content": word})
        for word in re.findall(r"\S+\s*|\s+", answer.text):
            yield frame({"content": word})
        calls = [self._call(call) for call in answer.tool_calls]
        for index, call in enumerate(calls):
            function = call["function"] | {"arguments": ""}
            yield frame({"tool_calls": [call | {"index": index, "function": function}]})
        longest = max((len(call["function"]["arguments"]) for call in calls), default=0)
        for start in range(0, longest, 7):  # the arguments of parallel calls come interleaved
            for index, call in enumerate(calls):
                piece = call["function"]["arguments"][start : start + 7]
                if piece:
                    yield frame({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        if answer.finish != "":
            yield frame({}, _finish(answer))
        if self.with_usage and (body.get("stream_options") or {}).get("include_usage"):
            yield head | {"choices": [], "usage": _usage(body, answer)}

    def _call(self, call: ScriptedCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.json}
        return {"id": self._call_id(call, "call_"), "type": "function", "function": function}


def _head(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-fake", "created": 0, "model": body.get("model", "")}


def _finish(answer: ScriptedAnswer) -> str:
    return answer.finish or ("tool_calls" if answer.tool_calls else "stop")


def _usage(body: dict[str, Any], answer: ScriptedAnswer) -> dict[str, Any]:
    """Count words as tokens."""
    read = sum(len(said(message.get("content")).split()) for message in body["messages"])
    wrote = len(answer.text.split())
    usage: dict[str, Any] = {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote}
    if answer.cached_tokens:
        usage["prompt_tokens_details"] = {"cached_tokens": answer.cached_tokens}
    return usage


# -- what the real server refuses ------------------------------------------------------------------------------------


def _wrong(body: dict[str, Any]) -> str:
    """Return what the real server would refuse in a request, "" for nothing."""
    messages = body.get("messages")
    if not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    if "tool_choice" in body and not body.get("tools"):
        return "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    if not isinstance(messages, list) or not messages:
        return "'messages' must be a list that is not empty"
    waiting: set[str] = set()
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"messages[{number}] of role 'tool' must answer a preceding message with 'tool_calls'"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return f"'tool_calls' must be followed by tool messages for each id; missing: {sorted(waiting)}"
        if role not in ("system", "developer", "user", "assistant"):
            return f"messages[{number}] has the unknown role {role!r}"
        calls = message.get("tool_calls") or []
        if wrong := _wrong_content(message, role, bool(calls)):
            return f"messages[{number}] {wrong}"
        waiting = {call["id"] for call in calls}
        if len(waiting) < len(calls):
            return f"messages[{number}] has two tool calls of one id"
    if waiting:
        return f"'tool_calls' must be followed by tool messages; missing: {sorted(waiting)}"
    return _wrong_format(body.get("response_format"))


def _wrong_content(message: dict[str, Any], role: str, calls: bool) -> str:
    content = message.get("content")
    if isinstance(content, str) or (content is None and calls):
        return ""
    if not isinstance(content, list) or not content:
        return "has no content"
    for part in content:
        kind = part.get("type")
        if kind == "image_url" and role == "user":
            head, _, data = part["image_url"]["url"].partition(";base64,")
            try:
                good = re.fullmatch(r"data:image/(png|jpeg|gif|webp)", head) and b64decode(data, validate=True)
            except ValueError:
                good = None
            if not good:
                return "has an image that cannot be read"
        elif kind != "text" or not isinstance(part.get("text"), str):
            return f"has a part of the unknown type {kind!r}"
    return ""


def _wrong_format(wanted: dict[str, Any] | None) -> str:
    if wanted is None or wanted.get("type") != "json_schema":
        return ""
    spec = wanted.get("json_schema") or {}
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", spec.get("name", "")):
        return "Invalid 'response_format.json_schema.name'"
    if spec.get("strict") and not _is_closed(spec.get("schema")):
        return "Invalid schema for response_format: 'additionalProperties' must be false, 'required' must hold all"
    return ""


def _is_closed(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return True
    fields = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or sorted(schema.get("required", [])) != sorted(fields)
    ):
        return False
    return all(_is_closed(inner) for inner in [*fields.values(), schema.get("items"), *schema.get("anyOf", [])])


# -- by hand ---------------------------------------------------------------------------------------------------------

_STAMP = re.compile(r"\A\[[^\]\n]{1,60}\] ")  # the local time that prompts put before a message
_REMIND = re.compile(r"remind me in (\d{1,6}) ?s(?:econds?)? to ([^\n]+)", re.IGNORECASE)


def demo(body: dict[str, Any]) -> ScriptedAnswer:
    """Answer as the demo model: streams slowly, and calls the tool `remind` when it is asked for a reminder."""
    last = body["messages"][-1]
    asked = _REMIND.search(said(last.get("content")))
    tools = {tool["function"]["name"] for tool in body.get("tools") or ()}
    if last["role"] == "tool":
        return ScriptedAnswer(text=f"The tool answered: {last['content']}", piece_delay_s=0.05)
    if asked and "remind" in tools:
        arguments = {"after_s": int(asked[1]), "text": asked[2].strip()}
        return ScriptedAnswer(tool_calls=(ScriptedCall("remind", arguments),), piece_delay_s=0.05)
    words = _STAMP.sub("", last_user_text(body))
    if words.startswith(REMINDER):
        return ScriptedAnswer(text=f"Time to {words.removeprefix(REMINDER)}!", piece_delay_s=0.05)
    text = f'I am the demo model of daycare\'s fake server and read: {words}\nTry "remind me in 5 seconds to stretch".'
    return ScriptedAnswer(text=text, piece_delay_s=0.05)


async def _serve_demo(port: int) -> None:
    async with FakeOpenAI.serve(port=port, reply=demo) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


def main() -> None:
    """Serve the demo model until interrupted."""
    parser = argparse.ArgumentParser(description="A small model server for trying daycare by hand.")
    parser.add_argument("--port", type=int, default=8123, help="port on 127.0.0.1; 0 for a free one")
    try:
        trio.run(_serve_demo, parser.parse_args().port)
    except* KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
