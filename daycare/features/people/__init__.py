"""People: who may write, the keys of services kept for them, and what the rules let each agent do."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.permission_checks import PermissionChecks
    from daycare.store.sqlite.store import Store
    from daycare.store.vault import Vault


class PeopleFeature(Feature):
    """All of it. `owner` has the keys that are nobody else's; they are on the `keyring`.

    `try_key` tries one, the stored one without a value, with what would use it, and names that; it runs in a thread.
    """

    name = "people"

    def __init__(
        self,
        store: "Store",
        vault: "Vault",
        permissions: "PermissionChecks",
        owner: str,
        try_key: Callable[[str, str | None], str],
    ) -> None:
        from daycare.store.rotation import Keyring

        self._store = store
        self.keyring = Keyring(store.secrets, vault, owner)
        self._permissions = permissions
        self._try_key = try_key

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/users`, `/v1/keys` and `/v1/can`."""
        from daycare.features.people.routes import Keys, PeopleRoutes
        from daycare.features.people.routes_permissions import PermissionRoutes

        people, keys = PeopleRoutes(self._store.people), Keys(self.keyring, self._try_key)
        return [*people.routes(), *keys.routes(), *PermissionRoutes(self._permissions).routes()]
