"""Hearing and speaking: whether what they need is here. Whether it works says `daycare voice test`."""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from daycare.config import WELL_KNOWN, Config
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding


def voice(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Whether voice notes can be heard, and answers spoken where agents are to speak."""
    hearing, speaking = context.config.voice.hearing, context.config.voice.speaking
    wrong = [
        *_program("hearing", hearing.command),
        *_program("speaking", speaking.command),
        *_folder(hearing.folder),
        *_provider(context.config, "hearing", hearing.provider),
        *_provider(context.config, "speaking", speaking.provider),
    ]
    if wrong:
        yield from wrong
        return
    hears = bool(hearing.command or hearing.folder or hearing.provider)
    speaks = bool(speaking.command or speaking.provider)
    own = any(it.audio for section in context.config.providers.values() for it in section.models.values())
    if speaking.answers != "off" and not speaks:
        what = "answers are to be spoken, and nothing can speak: they stay text"
        yield DoctorFinding("warn", "voice", what, "[voice.speaking] in config.toml; doc/use/voice.md")
    if not hears and not own:
        yield DoctorFinding("ok", "voice", "voice notes are not listened to: [voice.hearing] in config.toml is not set")
        return
    can = "; answers can be spoken" if speaks else ""
    yield DoctorFinding("ok", "voice", f"what listens to voice notes is here{can}; daycare voice test FILE tries it")


def _program(what: str, words: tuple[str, ...]) -> Iterator[DoctorFinding]:
    if words and shutil.which(words[0]) is None:
        hint = f"install it, or correct [voice.{what}] command"
        yield DoctorFinding("fail", "voice", f"there is no program {words[0]}", hint)


def _folder(folder: str) -> Iterator[DoctorFinding]:
    if not folder:
        return
    if not Path(folder).expanduser().is_dir():
        yield DoctorFinding("fail", "voice", f"no such folder: {folder}", "correct [voice.hearing] folder")
    if find_spec("faster_whisper") is None:
        yield DoctorFinding("fail", "voice", "faster-whisper is not installed", "pip install 'daycare[voice]'")


def _provider(config: Config, what: str, name: str) -> Iterator[DoctorFinding]:
    server = name.partition("/")[0]
    section = config.providers.get(server)
    kind = section.kind if section is not None else WELL_KNOWN.get(server, "")
    if name and kind != "openai":
        where = f"[voice.{what}] provider"
        yield DoctorFinding("fail", "voice", f"{where}: {server} is no provider of the kind openai", f"correct {where}")
