"""Writing a plan of setting up: a new home in one go; of one that is there the database through its daemon."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing

from msgspec.structs import replace

from daycare.agent.prompt import Persona
from daycare.agent.sections import known_of
from daycare.api.client import Client, segment
from daycare.base.errors import DaycareError
from daycare.features.configuration.service import write_config
from daycare.ops import setup
from daycare.ops.planning import SetupPlan
from daycare.store.home import Home


def carry_out(made: SetupPlan, connect: Callable[[], AbstractContextManager[Client]]) -> list[str]:
    """Write a plan, and return what its person should know of it.

    `connect` gives a client of the daemon that serves the home, perhaps of one that lives as long as that. To be called
    in a thread: it calls the daemon, also from within it.
    """
    if made.new:
        agent = made.agent
        setup.initialise(
            made.present.home,
            agent_name=agent["name"],
            user_name=made.owner.name,
            user_id=made.owner.id,
            tone=agent["tone"],
            personality=agent["personality"],
            zone=made.owner.zone,
            text=made.text,
            secrets=made.secrets,
        )
        return []
    notes: list[str] = []
    if made.secrets or made.person or _persona(made):
        with connect() as client:
            for name, value in made.secrets.items():
                client.call("PUT", f"/v1/keys/{segment(name)}", {"value": value})
            if made.person:
                client.call("PATCH", f"/v1/users/{segment(made.owner.id)}", made.person)
            notes += _introduce(client, made)
    if made.text != made.present.text:
        write_config(Home(made.present.home).config, made.text)
        notes += _reload(made)
    return notes


def _reload(made: SetupPlan) -> Iterator[str]:
    """Let a daemon that runs take the new configuration at once; yield what it takes after a restart only."""
    with closing(Client(Home(made.present.home).socket)) as client:
        try:
            if client.status() is not None:
                pending = client.call("POST", "/v1/config/reload")["pending"]
                if pending:
                    yield f"after `daycare restart` only: {', '.join(pending)}"
        except DaycareError as error:
            yield f"the running daemon goes on as before: {error.message}"


def _persona(made: SetupPlan) -> bool:
    was, now = made.present.config.agent, made.config.agent
    return (was.name, was.tone) != (now.name, now.tone)


def _introduce(client: Client, made: SetupPlan) -> Iterator[str]:
    """Let the documents that the first set-up wrote say the new names, unless somebody has changed them since."""
    was, now = made.present.config.agent, made.config.agent
    owner = replace(made.owner, **made.person) if made.person else made.owner
    for path, old, new in (
        ("global/IDENTITY.md", Persona(was.name, was.tone).text, Persona(now.name, now.tone).text),
        ("shared/USER.md", known_of(made.owner), known_of(owner)),
    ):
        if old == new:
            continue
        try:
            found = client.call("GET", "/v1/memory/document", path=path)
            if found["text"].strip() == old.strip():
                wish = {"text": f"{new}\n", "base_hash": found["hash"], "reason": "changed by daycare init"}
                client.call("PUT", "/v1/memory/document", wish, path=path)
            else:
                yield f"{path} was rewritten since, and stays: daycare memory edit {path}"
        except DaycareError as error:
            yield f"{path} stays as it is: {error.message}"
