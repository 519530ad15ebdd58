"""What a person says of an import beside the folder."""

from pathlib import Path

import msgspec


class ImportReading(msgspec.Struct, frozen=True, kw_only=True):
    """How to read. `me` are connector keys of the owner, `workspace` a folder that lies elsewhere.

    `history`: old conversations are read, too.
    """

    me: tuple[str, ...] = ()
    workspace: Path | None = None
    history: bool = False
