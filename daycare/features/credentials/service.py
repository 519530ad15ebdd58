"""Credentials by service: one each, stored under its name among the installation's secrets.

So `daycare keys` lists it, plugins find it, and it is sealed again when the vault's key changes.
"""

from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.secrecy import hide
from daycare.features.credentials.kinds import KINDS, CredentialKind
from daycare.features.credentials.records import CheckedCredential
from daycare.settings import Live
from daycare.store.rotation import Keyring


class Credentials:
    """Checks, keeps and forgets them. Each method raises `NotFoundError` CREDENTIAL_SERVICE."""

    def __init__(self, keyring: Keyring, live: Live) -> None:
        self._keyring = keyring
        self._live = live

    async def store(self, service: str, token: str) -> CheckedCredential:
        """Keep a token that its service takes, in place of the one before; return what the service says of it.

        Raises `InvalidError` CREDENTIAL_FORMAT, `CredentialRejectedError`, or `UnavailableError` where nobody could
        say; then the one before stays.
        """
        kind = _kind(service)
        if kind.pattern.fullmatch(token) is None:
            raise InvalidError(
                "CREDENTIAL_FORMAT",
                f"storing a token for {service}: it does not look like one",
                hint=f"one is {kind.shape}",
            )
        hide(token)
        found = await kind.check(kind.url(self._live.now.credentials), token)
        await self._keyring.put(service, token)
        return found

    async def check(self, service: str) -> CheckedCredential:
        """Ask a service whether it still takes the token that is kept.

        Raises `NotFoundError` CREDENTIAL_MISSING, `CredentialRejectedError`, or `UnavailableError` where nobody could
        say.
        """
        kind = _kind(service)
        token = self._keyring.open(service)
        if token is None:
            raise NotFoundError(
                "CREDENTIAL_MISSING",
                f"checking the token for {service}: there is none",
                hint=f"daycare credentials set {service}",
            )
        hide(token)
        return await kind.check(kind.url(self._live.now.credentials), token)

    def configured(self, service: str) -> bool:
        """Return whether there is a token for a service."""
        _kind(service)
        return self._keyring.has(service)

    async def forget(self, service: str) -> None:
        """Keep no token for a service."""
        _kind(service)
        await self._keyring.remove(service)


def _kind(service: str) -> CredentialKind:
    kind = KINDS.get(service)
    if kind is None:
        raise NotFoundError(
            "CREDENTIAL_SERVICE", f"using {service[:64]!a}: no such service", hint=f"one of: {', '.join(KINDS)}"
        )
    return kind
