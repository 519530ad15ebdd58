"""What the first message would wait for, read before anybody writes: 20 ms of its turn, or 50 with a stored secret."""

from daycare.agent.personality import Personalities
from daycare.base import crontab
from daycare.inference.catalog import vendors
from daycare.store.vault import Vault


def warm(personalities: Personalities, vault: Vault, *, secrets: bool) -> None:
    """Read what a turn needs whatever it is about; to be called in a thread. `secrets` says that there are some."""
    vendors()
    personalities.chosen()
    crontab.words("0 8 * * *")
    "".encode("idna")  # what looks up an address by its name imports this codec
    if secrets:
        vault.load()
