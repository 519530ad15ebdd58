"""What was changed for good, as events: agents, documents, people, keys and tokens; see `events`.

The statement that writes the row adds the event to its commit: it is told once, no matter who asked for the change.
Those of people, keys and tokens have no path: they are the operator's to see.
"""

from daycare.base.event import Event


class AgentCreated(Event, frozen=True, kw_only=True, tag="agent.created"):
    """A new incarnation lives at a path. `by` is the path of the agent that made it, empty if none did."""

    by: str = ""


class AgentChanged(Event, frozen=True, kw_only=True, tag="agent.changed"):
    """Settings of an agent are other ones. `by` is the path of the agent that changed them, empty if none did."""

    fields: tuple[str, ...]
    by: str = ""


class AgentParked(Event, frozen=True, kw_only=True, tag="agent.parked"):
    """An agent crashed too often and takes no turns until it is unparked."""

    reason: str


class AgentUnparked(Event, frozen=True, kw_only=True, tag="agent.unparked"):
    """An agent that was parked takes turns again."""


class AgentDied(Event, frozen=True, kw_only=True, tag="agent.died"):
    """An incarnation ended; its path may be taken by a new one."""

    reason: str


class AgentRestored(Event, frozen=True, kw_only=True, tag="agent.restored"):
    """An incarnation that had ended lives again."""


class DocumentChanged(Event, frozen=True, kw_only=True, tag="document.changed"):
    """A document has a new version; `deleted`: one without a text. What it says is not told.

    `path` is that of the agent or the scope whose document it is, empty for one that everybody reads.
    """

    document: str
    layer: str
    version: int
    author: str
    deleted: bool = False


class UserAdded(Event, frozen=True, kw_only=True, tag="user.added"):
    """A person or group is known, new or back again. `parent` is whose sub-user, or the group that it is a part of."""

    kind: str
    parent: str = ""


class UserChanged(Event, frozen=True, kw_only=True, tag="user.changed"):
    """Something of a user is another: `name`, `zone`, or `keys`, the addresses that lead to them."""

    fields: tuple[str, ...]


class UserPaired(Event, frozen=True, kw_only=True, tag="user.paired"):
    """A stranger was let in: the connector key `key` leads to the user from now on."""

    key: str


class UserRemoved(Event, frozen=True, kw_only=True, tag="user.removed"):
    """A user was removed, and what was theirs has ended."""


class KeyStored(Event, frozen=True, kw_only=True, tag="key.stored"):
    """The vault has a secret under this name, new or replaced; its value is never told."""

    name: str


class KeyRemoved(Event, frozen=True, kw_only=True, tag="key.removed"):
    """The vault has no secret of this name any more."""

    name: str


class KeysResealed(Event, frozen=True, kw_only=True, tag="key.resealed"):
    """Every secret of the vault was encrypted again, with a new key."""

    keys: int


class TokenMade(Event, frozen=True, kw_only=True, tag="token.made"):
    """`user` has a new token of the API; its text is never told. `expires_at` 0: it does not expire."""

    name: str
    may: str
    expires_at: int = 0


class TokenRevoked(Event, frozen=True, kw_only=True, tag="token.revoked"):
    """A token of the API opens nothing any more."""

    name: str
