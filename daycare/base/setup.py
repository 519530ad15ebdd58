"""What a plugin tells `daycare init` and `daycare doctor`: its questions, and how its credentials are tried.

No connector is known to them by name: whoever declares a `SetupStep` is asked about.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

Secret = Callable[[str], str | None]
"""Returns a stored (or just typed) secret by its name, None if there is none."""


class SetupQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is asked for.

    `kind` `text` is written to `[plugins.NAME]` under `name`, and an empty answer leaves it out; `flag` is a yes or no,
    written as true or false. `secret` is typed without echo and stored encrypted under `name`, which is the plugin's
    own or begins with it and a dot; it never gets into a file, an argument or an output. `optional` may stay empty.
    `asked` false keeps a text or flag out of the questions: it can be given by a flag or a file alone.
    """

    name: str
    prompt: str
    kind: Literal["text", "secret", "flag"] = "text"
    optional: bool = False
    asked: bool = True


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What a platform said when it was asked with the credentials: they work.

    `identity` is who it takes us for, such as `@kitchen_bot`. `contact` says in a line what people do to write to it;
    empty where that is not known, or where nobody is let in by a code.
    """

    identity: str = ""
    contact: str = ""


class SetupStep(msgspec.Struct, frozen=True, kw_only=True):
    """How a plugin is set up. The functions get the `[plugins.NAME]` section as the plugin's own `config` type.

    `title` is the messenger's name, `about` a line on where to get what is asked for. `settings` are written to
    `[plugins.NAME]` when it is chosen, beside the answers. `connector` is the connector that the questions set up.

    `missing` returns why it cannot be set up here, with the command that mends it; empty if it can. `connectors`
    returns the names of the connectors in use with these settings and secrets. `check` tries one of them with a cheap
    call that changes nothing on the platform, also while a daemon receives on it; it raises a `DaycareError` without a
    secret in it: `ForbiddenError` for credentials that are refused, `UnavailableError` where nobody could be asked. It
    is None where only the running connector can know. `after` says what is left to do once it was set up.
    """

    title: str
    about: str
    connector: str
    connectors: Callable[[Any, Secret], Sequence[str]]
    questions: Sequence[SetupQuestion] = ()
    settings: Mapping[str, Any] = {}
    missing: Callable[[], str] = lambda: ""
    check: Callable[[str, Any, Secret], Awaitable[Verified]] | None = None
    after: str = ""
