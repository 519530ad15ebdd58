"""The roster: agents as a tree, a branch at a time, however many there are; what each may use, and can be made of."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.directory import Directory
    from daycare.actors.permission_checks import PermissionChecks
    from daycare.actors.supervisor import Supervisor
    from daycare.agent.behaviours import Behaviours
    from daycare.agent.personality import Personalities
    from daycare.store.sqlite.store import Store
    from daycare.tools.catalogue import Catalogue


class RosterFeature(Feature):
    """All of it."""

    name = "roster"

    def __init__(
        self,
        store: "Store",
        directory: "Directory",
        supervisor: "Supervisor",
        catalogue: "Catalogue",
        permissions: "PermissionChecks",
        behaviours: "Behaviours",
        personalities: "Personalities",
    ) -> None:
        self._tree = store, directory, supervisor, behaviours
        self._choices = directory, catalogue, permissions, behaviours, personalities

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/agents/tree`, `/v1/agents/choices` and `/v1/agent/tools`."""
        from daycare.features.roster.routes import ChoiceRoutes, TreeRoutes

        return [*TreeRoutes(*self._tree).routes(), *ChoiceRoutes(*self._choices).routes()]
