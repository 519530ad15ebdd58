"""Folders of skills on the disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from daycare.rules.skill_text import skill_text

BODY: Final = "Read references/forms.md before you fill a form in."
DESCRIPTION: Final = "Reads PDFs. Use it for invoices."
REFERENCE: Final = "A form has boxes."
SCRIPT: Final = "print('filled')\n"


def pdf(**more: str) -> dict[str, str]:
    """Return the files of a skill `pdf`."""
    return {
        "SKILL.md": skill_text("pdf", DESCRIPTION, BODY),
        "references/forms.md": REFERENCE,
        "scripts/fill.py": SCRIPT,
        **more,
    }


def put(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files into a folder."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
