"""How one thing of the installation is, in words."""

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `watched`: nobody else tells the operator when it turns bad. `hint` is the command that helps."""

    name: str
    ok: bool
    text: str
    watched: bool = False
    hint: str = ""
