"""Hearing and speaking: `[voice]` in config.toml."""

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from daycare.base.toml_positions import Key

VoiceMode = Literal["off", "mirror", "always"]  # when answers are spoken: `mirror` answers what was spoken

_ChildMb = Annotated[int, Meta(ge=64, le=1_048_576)]
_Command = Annotated[tuple[str, ...], Meta(max_length=100)]


class HearingSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[voice.hearing]`: what makes text of voice notes. What is set is asked in this order until one can.

    `model`: the agent's own, where its provider's section says `audio = true`. `command`: a program, which reads
    `{input}` and writes what it hears, or writes it to `{output}`. `folder`: of a model for faster-whisper. `provider`:
    PROVIDER/MODEL of a server that speaks OpenAI's `/audio/transcriptions`. `language` is a hint such as "de".
    A note has `seconds` to be heard, `minutes` at most; `at_once` are heard together. `echo`: people are told what was
    heard. Programs may use `memory_mb`, and read the folders `readable`.
    """

    model: bool = True
    command: _Command = ()
    folder: str = ""
    provider: Annotated[str, Meta(max_length=200)] = ""
    language: Annotated[str, Meta(pattern=r"^([a-z]{2,3})?$")] = ""
    seconds: Annotated[int, Meta(ge=1, le=600)] = 60
    minutes: Annotated[int, Meta(ge=1, le=600)] = 10
    at_once: Annotated[int, Meta(ge=1, le=16)] = 2
    echo: bool = False
    memory_mb: _ChildMb = 4_096
    readable: tuple[str, ...] = ()


class SpeakingSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[voice.speaking]`: what makes voice notes of answers, and when. A command is asked before a provider.

    `answers`: for agents that say nothing else. `command` reads the words from its input, or the file `{text}`, and
    writes `{output}`, a file of the type `format`. `provider` is PROVIDER/MODEL of a server that speaks OpenAI's
    `/audio/speech`, `voice` one of its voices. An answer of more than `max_chars` stays text, as do code and lists.
    """

    answers: VoiceMode = "off"
    command: _Command = ()
    provider: Annotated[str, Meta(max_length=200)] = ""
    voice: Annotated[str, Meta(max_length=100)] = "alloy"
    format: Literal["ogg", "mp3", "wav"] = "ogg"
    seconds: Annotated[int, Meta(ge=1, le=600)] = 30
    max_chars: Annotated[int, Meta(ge=1, le=4_000)] = 600
    memory_mb: _ChildMb = 2_048
    readable: tuple[str, ...] = ()


class VoiceSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[voice]`: hearing and speaking."""

    hearing: HearingSection = HearingSection()
    speaking: SpeakingSection = SpeakingSection()


def flaws(section: VoiceSection) -> Iterator[tuple[Key, str]]:
    """Return what is wrong in it, by key."""
    hearing, speaking = section.hearing, section.speaking
    example = {"hearing": "openai/gpt-4o-mini-transcribe", "speaking": "openai/gpt-4o-mini-tts"}
    for name, provider in (("hearing", hearing.provider), ("speaking", speaking.provider)):
        server, slash, model = provider.partition("/")
        if provider and not (server and slash and model):
            yield ("voice", name, "provider"), f'expected PROVIDER/MODEL such as "{example[name]}"'
    if hearing.command and not any("{input}" in word for word in hearing.command):
        yield ("voice", "hearing", "command"), "expected {input} in one of its words, for the file to be heard"
    if speaking.command and not any("{output}" in word for word in speaking.command):
        yield ("voice", "speaking", "command"), "expected {output} in one of its words, for the file that is spoken"
