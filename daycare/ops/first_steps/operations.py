"""What can be asked about setting a home up, and what is answered."""

from typing import Annotated, Any

import msgspec

from daycare.api.operations import Operation
from daycare.base.meaning import meaning
from daycare.base.setup import SetupQuestion

Line = Annotated[str, msgspec.Meta(max_length=500)]


class ShowSetup(Operation, frozen=True, kw_only=True):
    """Show what a home is set up for, and what can be: providers, personalities, messengers with their questions."""

    ROUTE = "GET /v1/setup"


class SetUp(Operation, frozen=True, kw_only=True):
    """Set the home up as `daycare init` does; what is left out stays. Keys are tried before anything is written."""

    ROUTE = "POST /v1/setup"
    agent_name: Annotated[Line, meaning("What the agent is called")] | None = None
    user_name: Annotated[Line, meaning("What it calls its owner")] | None = None
    tone: Annotated[Line, meaning("How it speaks, in a few words")] | None = None
    personality: Annotated[Line, meaning("How it is: the name of a personality")] | None = None
    zone: Annotated[Line, meaning("The owner's IANA time zone")] | None = None
    model: Annotated[Line, meaning("PROVIDER/MODEL, or `offline`")] | None = None
    model_url: Annotated[Line, meaning("Its server, where daycare does not know it")] | None = None
    model_key: Annotated[str, meaning("Its key, which is stored encrypted")] | None = None
    embedder: Annotated[Line, meaning("What finds memories by meaning: local, PROVIDER/MODEL or none")] | None = None
    connect: Annotated[tuple[Line, ...], meaning("Messengers to connect, by their plugins")] = ()
    plugins: Annotated[dict[str, dict[str, Any]], meaning("Their settings, as in config.toml")] | None = None
    secrets: Annotated[dict[str, str], meaning("Their secrets by name, which are stored encrypted")] | None = None
    test: Annotated[bool, meaning("Try keys first, with one cheap call each")] = True


class SetupProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider to choose: its usual model, and whether its key is stored."""

    name: str
    title: str
    model: str
    stored: bool


class SetupMessenger(msgspec.Struct, frozen=True, kw_only=True):
    """A messenger to connect; `missing` says why it cannot be here, `connected` whether it is in use already."""

    plugin: str
    title: str
    about: str
    connector: str
    missing: str
    connected: bool
    questions: tuple[SetupQuestion, ...]


class SetupState(msgspec.Struct, frozen=True, kw_only=True):
    """What a home is set up for now. `answers` is whether the model is one that talks, and no rules."""

    user: str
    user_name: str
    zone: str
    agent_name: str
    tone: str
    personality: str
    path: str
    model: str
    answers: bool
    personalities: tuple[str, ...]
    providers: tuple[SetupProvider, ...]
    messengers: tuple[SetupMessenger, ...]


class SetupDone(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: keys of config.toml as a diff, models that answered, accounts that were found, and what to know.

    `identity` of an account is who its platform takes us for, `contact` what people do to write to it.
    """

    written: bool
    config_diff: tuple[str, ...]
    models_tried: tuple[str, ...]
    connectors: tuple[dict[str, str], ...]
    notes: tuple[str, ...]
