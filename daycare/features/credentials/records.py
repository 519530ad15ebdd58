"""What a service says of a token."""

import msgspec


class CheckedCredential(msgspec.Struct, frozen=True, kw_only=True):
    """A good token: who it is there, empty where the service does not say, and the scopes that it lacks."""

    identity: str = ""
    missing: tuple[str, ...] = ()
