"""Two tools for tests and trials: one that may be repeated, one that may not. Each appends a line to a ledger file.

Load them with `[plugins] load = ["daycare.testing.tools:plugin"]`; the ledger is `$DAYCARE_TEST_LEDGER`.
"""

import os
from typing import Annotated

import msgspec

from daycare.base.tool import STAYS
from daycare.plugin import Plugin, StructTool, ToolContext


class NoteWord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Note a word; noting it again changes nothing."""

    word: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Charge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Charge an account once; doing it again would charge it twice."""

    account: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


async def _note(context: ToolContext, arguments: NoteWord) -> str:
    _append(f"note {arguments.word}")
    return f"noted {arguments.word}"


async def _charge(context: ToolContext, arguments: Charge) -> str:
    _append(f"charge {arguments.account}")
    return f"charged {arguments.account}"


def _append(line: str) -> None:
    """Append one line with one write, durably, so that the ledger is right even when the process is killed here."""
    ledger = os.environ.get("DAYCARE_TEST_LEDGER")
    if ledger:
        fd = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, f"{line}\n".encode())
        finally:
            os.close(fd)


plugin = Plugin(
    name="testing",
    tools=(
        StructTool("note", NoteWord, _note, idempotent=True, **STAYS),
        StructTool("charge", Charge, _charge, idempotent=False, **STAYS),
    ),
)
