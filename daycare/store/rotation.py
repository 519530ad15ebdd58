"""Changing the vault's key: every stored secret is sealed again, then the older keys go.

In each step between, whatever is stored can be opened with the key file as it stands: first the new key is in the file
beside the older ones, then all tokens change in one transaction, and only then, when the new key is seen to open each
of them by itself, the file holds no other. A rotation that was interrupted is completed by the next one.
"""

import trio

from daycare.store.sqlite.people import Secrets
from daycare.store.vault import Vault


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
