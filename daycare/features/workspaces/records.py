"""Changes of files as they are stored and shown. Times are wall-clock milliseconds, UTC."""

import msgspec


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of `file` in the workspace `folder` by the agent at `path`.

    The hashes are of what stood there before and of what stands there after it, empty for no file; `size` is in bytes
    of the latter. `key` names the call that made it. `clean`: the agent had read no words of others.
    """

    no: int = 0
    key: str
    agent_id: str
    path: str
    user: str
    folder: str
    file: str
    before_hash: str
    after_hash: str
    size: int
    clean: bool
    created_at: int = 0
    undone_at: int | None = None
