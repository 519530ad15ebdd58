"""The keyring: secrets that are kept sealed, and the change of the key that seals them.

When that changes, every stored secret is sealed again, then the older keys go. In each step between, whatever is
stored can be opened with the key file as it stands: first the new key is in the file beside the older ones, then all
tokens change in one transaction, and only then, when the new key is seen to open each of them by itself, the file holds
no other. A rotation that was interrupted is completed by the next one.
"""

import trio

from daycare.store.sqlite.people import Secrets
from daycare.store.vault import Vault


class Keyring:
    """The installation's secrets by name; `owner` is whose they are."""

    def __init__(self, secrets: Secrets, vault: Vault, owner: str) -> None:
        self._secrets = secrets
        self._vault = vault
        self._owner = owner
        self._one_at_a_time = trio.Lock()  # what is sealed with a key is stored before that key goes

    async def find(self) -> list[tuple[str, int]]:
        """Return the names, and when each was stored (wall ms)."""
        return await self._secrets.find()

    def has(self, name: str) -> bool:
        """Return whether there is a secret of a name."""
        return self._secrets.get(name) is not None

    def open(self, name: str) -> str | None:
        """Return a secret, None for no such one. Raises `BrokenError` SECRET_SEALED."""
        token = self._secrets.get(name)
        return None if token is None else self._vault.open(token)

    async def put(self, name: str, value: str) -> None:
        """Store a secret, or replace it; nothing shows it from now on."""
        await trio.to_thread.run_sync(self._vault.load)
        async with self._one_at_a_time:
            await self._secrets.put(name, self._owner, self._vault.seal(value))

    async def remove(self, name: str) -> bool:
        """Delete a secret; whether there was one."""
        return await self._secrets.remove(name)

    async def rotate(self) -> int:
        """Seal every secret with a new key, see `rotate_key`."""
        async with self._one_at_a_time:
            return await rotate_key(self._vault, self._secrets)


async def rotate_key(vault: Vault, secrets: Secrets) -> int:
    """Seal all secrets with a new key and forget the older ones; return how many secrets there are.

    Nobody may store a secret meanwhile. Raises `ConflictError` KEY_NOT_OURS where systemd hands in the key, and
    `BrokenError` SECRET_SEALED for a secret that no key opens; nothing is lost then.
    """
    if not vault.has_older:
        await trio.to_thread.run_sync(vault.rotate)
    await secrets.reseal(vault.reseal)
    tokens = [token for name, _ in await secrets.find() if (token := secrets.get(name)) is not None]
    await trio.to_thread.run_sync(vault.drop_older, tokens)
    return len(tokens)
