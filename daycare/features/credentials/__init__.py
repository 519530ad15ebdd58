"""Credentials: tokens of services, looked at by the service itself before they are kept sealed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.settings import Live
    from daycare.store.rotation import Keyring


class CredentialsFeature(Feature):
    """All of it."""

    name = "credentials"

    def __init__(self, keyring: "Keyring", live: "Live") -> None:
        self._keyring = keyring
        self._live = live

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/credentials`."""
        from daycare.features.credentials.routes import CredentialRoutes
        from daycare.features.credentials.service import Credentials

        return CredentialRoutes(Credentials(self._keyring, self._live)).routes()
