"""Sounds that were really spoken, and a stub that hears them: by the sound itself, as nobody has a model here."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daycare.testing.openai_audio import tone

ESPEAK = shutil.which("espeak-ng")


def spoken(text: str) -> bytes:
    """Return a text spoken by espeak-ng as a WAV; where it is not installed, a tone that is as long."""
    if ESPEAK is None:
        return tone(text, "wav")
    done = subprocess.run([ESPEAK, "--stdout", text], capture_output=True, check=True, timeout=20)
    # As a stream it does not know its own length: the head says so with the largest number.
    data = done.stdout
    return (
        data[:4]
        + (len(data) - 8).to_bytes(4, "little")
        + data[8:40]
        + (len(data) - 44).to_bytes(4, "little")
        + data[44:]
    )


class Stub:
    """A program that "hears" what it was told: `told` adds a sound. It is a real script, run on a real file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = self.folder / "hear.sh"
        self.script.write_text(
            '#!/bin/sh\necho "loading a model" >&2\n'
            f'sum=$(sha256sum "$1" | cut -c1-64)\ncat "{self.folder}/$sum" 2>/dev/null || exit 3\n'
        )
        self.script.chmod(0o755)
        self.texts: dict[str, str] = {}

    @property
    def command(self) -> tuple[str, ...]:
        """The words of `[voice.hearing] command`."""
        return (str(self.script), "{input}")

    def told(self, text: str) -> bytes:
        """Return a sound in which the stub hears a text."""
        data = spoken(text)
        name = hashlib.sha256(data).hexdigest()
        self.texts[name] = text
        (self.folder / name).write_text(text)
        return data

    def heard(self, data: bytes) -> str:
        """Return what a server hears that was told as much."""
        return self.texts[hashlib.sha256(data).hexdigest()]


@contextmanager
def open_stub() -> Iterator[Stub]:
    """Give one in a folder that a sandbox can see: below /tmp it has files of its own."""
    with tempfile.TemporaryDirectory(prefix="daycare-ears-", dir="/var/tmp") as folder:
        yield Stub(Path(folder))
