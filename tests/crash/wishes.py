"""A tool that changes something outside, as one of an MCP server would: it may not run twice, and nobody can ask it."""

import os
from typing import Annotated

import msgspec
import trio

from daycare.base.tool import ACTS
from daycare.features.approvals import rows_room
from daycare.plugin import Plugin, StructTool, ToolContext
from tests.crash.mind import THINK_S


class Post(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Post a word where others see it; doing it again would post it twice."""

    word: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


async def _post(context: ToolContext, arguments: Post) -> str:
    """Take a while, and post in the middle of it."""
    await trio.sleep(THINK_S)
    fd = os.open(os.environ["DAYCARE_TEST_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, f"post {arguments.word}\n".encode())
    finally:
        os.close(fd)
    await trio.sleep(THINK_S)
    return f"posted {arguments.word}"


if "DAYCARE_CRASH_TRIAL" in os.environ:  # set for the daemon alone
    rows_room.APPROVALS_PER_HOUR = 1_000_000  # type: ignore[attr-defined]  # in minutes it asks for more than people do in days


plugin = Plugin(name="wishes", tools=(StructTool("post", Post, _post, idempotent=False, **ACTS),))
