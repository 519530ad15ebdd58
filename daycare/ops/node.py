"""What makes a daemon one of several: its section of config.toml, its key, and what all its settings come to."""

import hashlib
from typing import TypeAlias

import msgspec

from daycare.config import Config, NodeSection, StoreSection
from daycare.settings import ApiSection
from daycare.store.vault import Vault

OfNode: TypeAlias = "tuple[NodeSection, Vault, str] | None"


def node_of(config: Config, vault: Vault) -> OfNode:
    """Return what a store is opened with as one of several nodes, None for a daemon that works alone."""
    if not config.node.name:
        return None
    same = msgspec.structs.replace(config, node=NodeSection(), api=ApiSection(), store=StoreSection())
    return config.node, vault, hashlib.sha256(msgspec.json.encode(same, order="deterministic")).hexdigest()[:16]
