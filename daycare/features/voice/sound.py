"""What a sound is, told by its own bytes: its format, and how long it takes where that stands in it.

A name and a type are a stranger's claim. Nothing is decoded here.
"""

from typing import Final, NamedTuple

_TAIL_BYTES: Final = 64 * 1024  # an Ogg page has no more
_OPUS_HZ: Final = 48_000
_SLOW_BYTES_A_S: Final = 3_000  # of a compressed format that does not say how long it takes: 24 kbit/s, as voices have


class Sound(NamedTuple):
    """A format by its ending and its type. `seconds` is how long it takes; `exact`: as it says itself."""

    ending: str
    media_type: str
    seconds: float
    exact: bool = False


def sound_of(data: bytes) -> Sound | None:
    """Return what a file is, None if it is no sound that anybody would know."""
    guess = len(data) / _SLOW_BYTES_A_S
    if data.startswith(b"OggS"):
        return _ogg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _wav(data)
    if data.startswith(b"fLaC"):
        return Sound("flac", "audio/flac", guess)
    if data[4:8] == b"ftyp":
        return Sound("m4a", "audio/mp4", guess)
    if data.startswith(b"\x1a\x45\xdf\xa3"):
        return Sound("webm", "audio/webm", guess)
    if data.startswith(b"#!AMR"):
        return Sound("amr", "audio/amr", guess)
    if data.startswith(b"ID3") or (len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0):
        aac = data[:1] == b"\xff" and data[1] & 0xF6 == 0xF0
        return Sound("aac", "audio/aac", guess) if aac else Sound("mp3", "audio/mpeg", guess)
    return None


def _ogg(data: bytes) -> Sound:
    """Read an Ogg stream: its last page says how many samples there were until then."""
    at = data.rfind(b"OggS", max(0, len(data) - _TAIL_BYTES))
    granule = int.from_bytes(data[at + 6 : at + 14], "little") if at >= 0 else 0
    hz = _OPUS_HZ
    if (head := data.find(b"\x01vorbis", 0, 256)) >= 0:
        hz = int.from_bytes(data[head + 12 : head + 16], "little") or _OPUS_HZ
    exact = 0 < granule < 2**63
    return Sound("ogg", "audio/ogg", granule / hz if exact else len(data) / _SLOW_BYTES_A_S, exact)


def _wav(data: bytes) -> Sound:
    rate = int.from_bytes(data[28:32], "little")  # bytes a second
    return Sound("wav", "audio/wav", (len(data) - 44) / rate if rate else 0.0, rate > 0)
