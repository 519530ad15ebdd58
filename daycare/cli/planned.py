"""A plan of `daycare init`: shown, written, and told of afterwards."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from daycare.api.client import Client, Json, segment
from daycare.base.errors import DaycareError
from daycare.cli.command import Cli
from daycare.cli.home import connect as connect_to
from daycare.cli.render import plain
from daycare.store.home import Home

if TYPE_CHECKING:
    from daycare.base.setup import Verified
    from daycare.ops.planning import SetupPlan


# -- what is shown -----------------------------------------------------------------------------------------------------


def shown(made: "SetupPlan", service: str | None) -> Iterator[str]:
    """Yield the lines that show what is to be written: files with their text, secrets by name alone."""
    from daycare.ops.toml_edit import changed_lines

    home = Home(made.present.home)
    yield "\nThis is to be written:"
    if made.text != made.present.text:
        yield f"\n  {home.config} ({'new' if made.present.text is None else 'changed'})"
        before = made.present.text
        lines = made.text.splitlines() if before is None else list(changed_lines(before, made.text))
        yield from (f"    | {line}".rstrip() for line in lines)
    if made.new:
        owner = made.owner
        yield f"\n  {home.database(made.config.store.location)} (new)"
        yield f"    you: {owner.id}, called {owner.name}, in {owner.zone}; your agent's IDENTITY.md, your USER.md"
        yield f"\n  {home.key_file} (new)"
        yield "    the key that opens stored secrets"
    elif made.person:
        yield f"\n  your user {made.owner.id}"
        yield from (f"    {field}: {told}" for field, told in made.person.items())
    if made.secrets:
        yield "\n  secrets, in the database"
        for name in sorted(made.secrets):
            came = made.came.get(name)
            yield f"    stored encrypted as {name}" + (f", from {came}" if came else "")
    if service is not None:
        yield f"\n  a systemd unit, by `daycare service install{' --system' if service == 'system' else ''}`"


def facts(made: "SetupPlan", service: str | None, verified: "dict[str, Verified]", tried: Sequence[str]) -> Json:
    """Return a plan as a document."""
    from daycare.ops.toml_edit import changed_lines

    home = Home(made.present.home)
    before = made.present.text
    return {
        "home": str(home.path),
        "config": str(home.config),
        "config_change": "new" if before is None else "changed" if made.text != before else "none",
        "config_diff": list(changed_lines(before or "", made.text)),
        "database": home.database(made.config.store.location),
        "user": made.owner.id,
        "user_name": made.person.get("name", made.owner.name),
        "zone": made.person.get("zone", made.owner.zone),
        "agent_name": made.config.agent.name,
        "tone": made.config.agent.tone,
        "personality": made.config.agent.personality,
        "path": f"/{made.owner.id}/direct",
        "model": made.config.models.default,
        "embedder": made.config.memory.embedder,
        "secrets": [{"name": name, "from": made.came.get(name, "")} for name in sorted(made.secrets)],
        "models_tried": list(tried),
        "connectors": [
            {
                "name": step.connector,
                "identity": verified[step.connector].identity if step.connector in verified else "",
            }
            for _, step in made.connect
        ],
        "service": service or "none",
    }


def following(made: "SetupPlan", service: str | None, *, paired: bool) -> Iterator[str]:
    """Yield the commands that come next."""
    for _, step in made.connect:
        if step.after:
            yield step.after
        elif not paired:
            yield "daycare pair approve CODE  # with the code that you are shown when you write to it"
    if service is None and made.connect and not _runs(made):
        yield "daycare run  # messengers are connected while the daemon runs; daycare service install keeps it going"
    yield "daycare chat"


def _runs(made: "SetupPlan") -> bool:
    client = Client(Home(made.present.home).socket)
    try:
        return client.status() is not None
    finally:
        client.close()


# -- writing -----------------------------------------------------------------------------------------------------------


def write(cli: Cli, made: "SetupPlan") -> None:
    """Write a plan: a new home in one go; of one that is there the database through its daemon, then config.toml."""
    from daycare.ops import setup

    if made.new:
        agent = made.agent
        setup.initialise(
            cli.home,
            agent_name=agent["name"],
            user_name=made.owner.name,
            user_id=made.owner.id,
            tone=agent["tone"],
            personality=agent["personality"],
            zone=made.owner.zone,
            text=made.text,
            secrets=made.secrets,
        )
        return
    if made.secrets or made.person or _persona(made):
        with connect_to(cli.home, work=False) as client:
            for name, value in made.secrets.items():
                client.call("PUT", f"/v1/keys/{segment(name)}", {"value": value})
            if made.person:
                client.call("PATCH", f"/v1/users/{segment(made.owner.id)}", made.person)
            _introduce(client, made)
    if made.text != made.present.text:
        setup.write_config(Home(cli.home).config, made.text)
        _reload(cli)


def _reload(cli: Cli) -> None:
    """Let a daemon that runs take the new configuration at once, and tell what it takes after a restart only."""
    client = Client(Home(cli.home).socket)
    try:
        if client.status() is not None:
            pending = client.call("POST", "/v1/config/reload")["pending"]
            if pending:
                told = ", ".join(pending)
                print(f"note: after `daycare restart` only: {plain(told)}", file=sys.stderr)
    except DaycareError as error:
        print(f"note: the running daemon goes on as before: {plain(error.message)}", file=sys.stderr)
    finally:
        client.close()


def _persona(made: "SetupPlan") -> bool:
    was, now = made.present.config.agent, made.config.agent
    return (was.name, was.tone) != (now.name, now.tone)


def _introduce(client: Client, made: "SetupPlan") -> None:
    """Let the documents that the first set-up wrote say the new names, unless somebody has changed them since."""
    from msgspec.structs import replace

    from daycare.agent.prompt import Persona
    from daycare.agent.sections import known_of

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
                print(f"note: {path} was rewritten since, and stays: daycare memory edit {path}", file=sys.stderr)
        except DaycareError as error:
            print(f"note: {path} stays as it is: {plain(error.message)}", file=sys.stderr)


def install(cli: Cli, service: str) -> None:
    """Install the unit; what keeps it from being installed harms nothing of what was written."""
    from daycare.cli import service as unit

    try:
        with redirect_stdout(sys.stderr if cli.json else sys.stdout):  # the document is the wizard's
            unit.install(Cli(cli.home, json=False), system=service == "system")
    except DaycareError as error:
        print(f"note: the service is not installed: {error}", file=sys.stderr)
