"""What the scanner found, as a request for approval keeps it."""

from importlib import import_module
from typing import Final

import trio

from daycare.features.approvals.records import ApprovalFinding

_SCANNER: Final = "daycare.rules.suspicion"  # a megabyte of words, for who never approves of anything

_loaded: set[str] = set()  # wholly: what is only begun is in `sys.modules` as well
_EXCERPT_MAX_CHARS = 200  # of a passage: enough to find it


async def findings_of(text: str) -> list[ApprovalFinding]:
    """Return what is suspicious in a text, in its order; others run in between."""
    if _SCANNER not in _loaded:
        await trio.to_thread.run_sync(import_module, _SCANNER)
        _loaded.add(_SCANNER)
    from daycare.rules.suspicion import scan_gently

    return [
        ApprovalFinding(
            severity=found.severity,
            kind=found.kind,
            meaning=found.why.removesuffix(".") + (f" (hidden: {found.form})" if found.form else ""),
            excerpt=text[found.start : found.end][:_EXCERPT_MAX_CHARS],
            start=found.start,
            end=found.end,
        )
        for found in await scan_gently(text)
    ]
