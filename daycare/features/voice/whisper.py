"""Hears one file with faster-whisper: a process of its own, which imports nothing else of ours.

    python whisper.py FOLDER FILE LANGUAGE

FOLDER is that of a model which is there; nothing is loaded from elsewhere.
"""

import json
import sys


def main() -> None:
    """Write the words and their language as JSON."""
    from faster_whisper import WhisperModel

    folder, file, language = sys.argv[1:4]
    model = WhisperModel(folder, device="cpu", compute_type="int8", local_files_only=True)
    segments, info = model.transcribe(file, language=None if language == "auto" else language)
    text = " ".join(segment.text.strip() for segment in segments)
    sys.stdout.write(json.dumps({"text": text, "language": info.language}))


if __name__ == "__main__":
    main()
