"""Probes: model servers that misbehave as real ones do, each with what a person should read in the end.

    async with FakeOpenAI.serve() as server:
        for answer in PROBES["emoji-cut-in-two"].answers:
            server.enqueue(answer)
        ...  # a turn over a provider with base_url=server.base_url says PROBES["emoji-cut-in-two"].words

The answers are on the wire of Chat Completions, as that is what such servers speak. Run them against a provider of your
own, or a whole daemon, to see that nobody reads what no model meant to say.
"""

from typing import Any, Final

import msgspec

from daycare.testing.model_server import ScriptedAnswer, ScriptedCall

_NOTHING: Final = "[the model gave an empty answer, twice: ask again, or choose another with /model]"


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answers to the calls of one turn, one after the other, and the words that should come of it."""

    answers: tuple[ScriptedAnswer, ...]
    words: str


def pieces(*deltas: str) -> ScriptedAnswer:
    """Return an answer whose text comes in exactly these pieces, which may be half characters."""
    frames = [_frame({"content": "@"}).replace('"@"', _escaped(delta)) for delta in deltas]
    frames.append(_frame({}, "stop"))
    return ScriptedAnswer(raw="".join(f"data: {frame}\n\n" for frame in (*frames, "[DONE]")).encode())


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)) + '"'


def _frame(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return msgspec.json.encode({"id": "chatcmpl-probe", "model": "fake-large", "choices": [choice]}).decode()


PROBES: Final[dict[str, Probe]] = {
    "thought-in-the-text": Probe(
        answers=(ScriptedAnswer(text="<think>\nShe asks for tea.\n</think>\n\nTea is ready."),), words="Tea is ready."
    ),
    "thought-cut-by-frames": Probe(
        answers=(pieces("<th", "ink>She asks", " for tea.</th", "ink>", "\n\nTea", " is ready."),),
        words="Tea is ready.",
    ),
    "thought-within-the-text": Probe(
        answers=(ScriptedAnswer(text="Tea <think>which one?</think>is ready."),), words="Tea is ready."
    ),
    "thought-whose-beginning-is-missing": Probe(
        answers=(ScriptedAnswer(text="She asks for tea.\n</think>\n\nTea is ready."),), words="Tea is ready."
    ),
    "thought-without-end-once": Probe(
        answers=(ScriptedAnswer(text="<think>She asks for"), ScriptedAnswer(text="Tea is ready.")),
        words="Tea is ready.",
    ),
    "tag-in-code": Probe(
        answers=(ScriptedAnswer(text="Models write `<think>` before `</think>`."),),
        words="Models write `<think>` before `</think>`.",
    ),
    "emoji-cut-in-two": Probe(answers=(pieces("Tea \ud83d", "\ude00 is ready."),), words="Tea 😀 is ready."),
    "half-an-emoji": Probe(answers=(pieces("Tea \ud83d", " is ready."),), words="Tea \ufffd is ready."),
    "nothing-once": Probe(
        answers=(ScriptedAnswer(text=""), ScriptedAnswer(text="Tea is ready.")), words="Tea is ready."
    ),
    "nothing-twice": Probe(answers=(ScriptedAnswer(text=""), ScriptedAnswer(text=" \n")), words=_NOTHING),
    "tools-without-end": Probe(
        answers=(
            *(ScriptedAnswer(tool_calls=(ScriptedCall("now", {}),)) for _ in range(16)),
            ScriptedAnswer(text="Tea is ready."),
        ),
        words="Tea is ready.",
    ),
    "tools-whatever-is-said": Probe(
        answers=tuple(ScriptedAnswer(tool_calls=(ScriptedCall("now", {}),)) for _ in range(17)),
        words="[I have used the 16 steps of a turn; tell me to go on]",
    ),
}
