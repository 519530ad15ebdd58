"""Panels: what pages of other programs show of one agent, by its id: identity, chat memory, files, skills.

Shapes alone: what is read, changed and refused is decided by documents, memory and the way in of messages.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.features.memory.service import MemoryFeature
    from daycare.plugin import Inbound
    from daycare.store.records import Receipt


class PanelsFeature(Feature):
    """All of it. `accept` takes a message in."""

    name = "panels"

    def __init__(self, memory: "MemoryFeature", accept: "Callable[[Inbound], Awaitable[Receipt]]") -> None:
        self._memory = memory
        self._accept = accept

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/identity`, `/v1/chats`, `/v1/projects`, `/v1/workspaces` and what is below `/v1/agents`."""
        from daycare.features.panels.routes_files import FilePanel
        from daycare.features.panels.routes_memory import MemoryPanel
        from daycare.features.panels.routes_run import RunPanel
        from daycare.features.panels.routes_skills import SkillPanel
        from daycare.features.panels.subject import Subjects

        memory, subjects = self._memory, Subjects(self._memory)
        return [
            *MemoryPanel(memory, subjects).routes(),
            *RunPanel(memory, subjects, self._accept, closing).routes(),
            *FilePanel(memory, subjects).routes(),
            *SkillPanel(memory, subjects).routes(),
        ]
