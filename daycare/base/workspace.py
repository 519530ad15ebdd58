"""Folders that agents work in, and the shell that they have there: `[workspaces]` and `[shell]` in config.toml."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from daycare.base.toml_positions import Key

_is_host: Final = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?").fullmatch


class Access(StrEnum):
    """What an agent may do in its workspace."""

    NONE = "none"  # nothing: it has no tools for files
    LIMITED = "limited"  # read; each change is asked for
    FULL = "full"  # change files and run commands, too, unless it has read words of others


def wider(one: Access | None, other: Access | None) -> bool:
    """Return whether one may do more than the other; None is limited."""
    ranks = list(Access)
    return ranks.index(one or Access.LIMITED) > ranks.index(other or Access.LIMITED)


class WorkspacesSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[workspaces]`: folders below which workspaces may be, besides `workspaces` in the home."""

    roots: tuple[str, ...] = ()


class ShellSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[shell]`: commands of agents, each in a sandbox of its own. Off by default.

    `readable` are files and folders that commands may read besides the system's programs, `hosts` those they may reach
    by https. The bounds are for one command: seconds, processes, and megabytes of memory, of files in `/tmp`, and of
    what it may add to the disk. `background` commands of an agent may go on while it does other things, for
    `background_minutes` each.
    """

    enabled: bool = False
    readable: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    seconds: Annotated[int, Meta(ge=1, le=110)] = 60
    processes: Annotated[int, Meta(ge=4, le=4_096)] = 128
    memory_mb: Annotated[int, Meta(ge=64, le=1_048_576)] = 2_048
    tmp_mb: Annotated[int, Meta(ge=1, le=65_536)] = 256
    disk_mb: Annotated[int, Meta(ge=1, le=1_048_576)] = 1_024
    background: Annotated[int, Meta(ge=0, le=8)] = 0
    background_minutes: Annotated[int, Meta(ge=1, le=1_440)] = 60


def flaws(workspaces: WorkspacesSection, shell: ShellSection) -> Iterator[tuple[Key, str]]:
    """Return what is wrong in them, by key."""
    for key, paths in ((("workspaces", "roots"), workspaces.roots), (("shell", "readable"), shell.readable)):
        for path in paths:
            if not path.startswith(("/", "~/")) or Path(path) == Path("/") or ".." in Path(path).parts:
                yield key, f'expected a folder such as "/srv/projects" instead of "{path}"'
    for host in shell.hosts:
        if _is_host(host) is None:
            yield ("shell", "hosts"), f'expected a name such as "github.com" or "*.example.org" instead of "{host}"'
