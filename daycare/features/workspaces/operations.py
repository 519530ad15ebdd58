"""What can be asked about the files of workspaces."""

from typing import Annotated

import msgspec

from daycare.api.operations import Operation
from daycare.base.meaning import meaning
from daycare.features.workspaces.records import FileChange

FILES_PAGE_MAX = 200

Owner = Annotated[str, meaning("The agent whose workspace it is", metavar="PATH")]


class ListFiles(Operation, frozen=True, kw_only=True):
    """List what is in the workspace of an agent, at most 500 files and folders."""

    ROUTE = "GET /v1/agent/files"
    path: Owner
    folder: Annotated[str, meaning("A folder below it", metavar="FOLDER")] = "."
    deep: Annotated[bool, meaning("With all that is below")] = False


class FileHistory(Operation, frozen=True, kw_only=True):
    """List what agents have changed in a workspace, the newest first."""

    ROUTE = "GET /v1/agent/files/history"
    path: Owner
    limit: Annotated[int, meaning("How many at most", metavar="N", ge=1, le=FILES_PAGE_MAX)] = 50


class UndoFile(Operation, frozen=True, kw_only=True):
    """Let a file be as it was before a change, if it still is as that left it."""

    ROUTE = "POST /v1/agent/files/undo"
    path: Owner
    change: Annotated[int, meaning("The number of the change", metavar="N", ge=1)]


class ListedFile(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a workspace: `kind` is file, folder, or other."""

    path: str
    kind: str
    size: int


class ListedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a workspace, `whole` if that is all. `access` is what its agent may do there."""

    folder: str
    access: str
    files: tuple[ListedFile, ...]
    whole: bool


class FileChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Changes in a workspace."""

    changes: tuple[FileChange, ...]
